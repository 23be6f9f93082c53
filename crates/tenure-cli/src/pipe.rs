//! Writing to pipes whose readers may have stopped to read.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tenure::clock::boottime;

/// Writes all of it to a pipe that does not block, while its reader takes it in.
pub(crate) fn write_within(mut pipe: &File, mut text: &[u8], within: Duration) -> std::io::Result<()> {
    let end = boottime() + within;
    while !text.is_empty() {
        match pipe.write(text) {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !takes_more(&pipe, end.saturating_sub(boottime())) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether something can be written now, or within this time. What is wrong with it is found by writing.
pub(crate) fn takes_more(out: &impl AsFd, within: Duration) -> bool {
    let end = boottime() + within;
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
    loop {
        let left = end.saturating_sub(boottime());
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            // A signal is no reason to write where nothing fits.
            Err(Errno::EINTR) => {}
            ready => return ready != Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Read;
    use std::os::fd::OwnedFd;

    fn pipe() -> (File, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = File::from(OwnedFd::from(writer));
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        (File::from(OwnedFd::from(reader)), writer)
    }

    #[test]
    fn what_a_pipe_does_not_hold_at_once_is_told_to_the_end_while_it_is_read() {
        let (mut reader, writer) = pipe();
        let text = "+12345\n".repeat(100_000);
        let reading = std::thread::spawn(move || {
            let mut heard = String::new();
            reader.read_to_string(&mut heard).unwrap();
            heard
        });
        write_within(&writer, text.as_bytes(), Duration::from_secs(60)).unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap(), text);
    }

    #[test]
    fn who_takes_in_a_part_of_what_is_told_is_found_out() {
        let (reader, writer) = pipe();
        let text = "+12345\n".repeat(100_000);
        let failed = write_within(&writer, text.as_bytes(), Duration::from_millis(5)).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::WouldBlock);
        drop(reader);
        let failed = write_within(&writer, b"bye\n", Duration::from_secs(60)).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::BrokenPipe);
    }
}
