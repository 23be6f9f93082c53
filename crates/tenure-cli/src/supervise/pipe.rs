//! Pipes that do not block who writes to them.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tenure::clock::boottime;

/// Writes all of it to a pipe that does not block, while its reader takes it in.
pub(super) fn write_within(mut pipe: &File, mut text: &[u8], within: Duration) -> std::io::Result<()> {
    let end = boottime() + within;
    while !text.is_empty() {
        match pipe.write(text) {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = end.saturating_sub(boottime());
                let left = PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX);
                let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)];
                if left == PollTimeout::ZERO || poll(&mut fds, left) == Ok(0) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
