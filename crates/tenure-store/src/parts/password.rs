//! A password, and where it is kept.

use super::TurnLock;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure_core::{ErrorKind, StoreError};
use tokio::sync::oneshot;

/// A password of a store's URL or configuration. No text of it is ever shown.
#[derive(Clone)]
pub struct Password(PasswordSource);

#[derive(Clone)]
enum PasswordSource {
    Here(String),
    /// With the turn to read it, which the one thread has that does.
    File(PathBuf, Arc<TurnLock>),
}

impl Password {
    /// One that stays as it is.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Password {
        Password(PasswordSource::Here(text.into()))
    }

    /// The first line of a file, where a password is best kept. The file is read for each login, so the password may be changed there.
    ///
    /// # Errors
    /// `Invalid`, which names the file: it can't be read now, or not again, as a pipe.
    pub fn in_file(file: impl Into<PathBuf>) -> Result<Password, StoreError> {
        let file = file.into();
        if std::fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::invalid(format!(
                "the password file {file:?} is not a regular file; it is read for each login, which a pipe is not: write the password to a file"
            )));
        }
        first_line(&file)?;
        Ok(Password(PasswordSource::File(file, Arc::default())))
    }

    /// The password as it is now. A file is read by a thread of its own: it may be on a network that hangs, and whoever waits may wait for as
    /// long as it likes.
    ///
    /// # Errors
    /// `Unavailable`: the file, which is named, could be read before and can't be now, or no thread can be had.
    ///
    /// # Cancel safety
    /// A thread that hangs stays, but not more than one.
    pub async fn text(&self) -> Result<String, StoreError> {
        let (file, turn) = match &self.0 {
            PasswordSource::Here(text) => return Ok(text.clone()),
            PasswordSource::File(file, turn) => (file.clone(), Arc::clone(turn)),
        };
        let turn = turn.take().await;
        let (reply, answer) = oneshot::channel();
        // Not one of a runtime's own: such a one would keep it from ending.
        let reading = move || {
            let text = first_line(&file).map_err(|error| error.of_kind(ErrorKind::Unavailable));
            drop(turn);
            // Whoever asked may have gone.
            let _ = reply.send(text);
        };
        std::thread::Builder::new()
            .name("tenure-password".into())
            .spawn(reading)
            .map_err(|error| failed(&error))?;
        answer.await.unwrap_or_else(|error| Err(failed(&error)))
    }
}

fn failed(why: &dyn fmt::Display) -> StoreError {
    StoreError::unavailable(format!("no thread to read a password file ({why})"))
}

fn first_line(file: &Path) -> Result<String, StoreError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| StoreError::invalid(format!("the password file {file:?}: {error}")))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

impl PartialEq for Password {
    fn eq(&self, other: &Password) -> bool {
        match (&self.0, &other.0) {
            (PasswordSource::Here(one), PasswordSource::Here(other)) => one == other,
            (PasswordSource::File(one, _), PasswordSource::File(other, _)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PasswordSource::Here(_) => f.write_str("Password"),
            PasswordSource::File(file, _) => write!(f, "Password in {file:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a file's first line, as it is when it is asked for; one that can't be read is named, one that hangs holds up
    //! nobody, a pipe is refused; nothing shows the text.
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_file_is_read_each_time_and_named_when_it_can_t_be() {
        let file = std::env::temp_dir().join(format!("tenure-password-{}", std::process::id()));
        std::fs::write(&file, "hush-1\nmore\n").unwrap();
        let password = Password::in_file(&file).unwrap();
        assert_eq!(password.text().await, Ok("hush-1".to_owned()));
        std::fs::write(&file, "hush-2").unwrap();
        assert_eq!(password.text().await, Ok("hush-2".to_owned()));
        std::fs::remove_file(&file).unwrap();
        let now = (password.text().await.unwrap_err(), ErrorKind::Unavailable);
        for (error, kind) in [now, (Password::in_file(&file).unwrap_err(), ErrorKind::Invalid)] {
            assert!(error.to_string().contains(&format!("the password file {file:?}")), "{error}");
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_hangs_holds_up_one_thread_and_no_task() {
        let file = std::env::temp_dir().join(format!("tenure-password-pipe-{}", std::process::id()));
        std::fs::write(&file, "hush-1").unwrap();
        let password = Password::in_file(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let error = Password::in_file(&file).unwrap_err();
        assert!(error.to_string().contains("not a regular file; it is read for each login"), "{error}");
        for _ in 0..3 {
            // Nobody writes to it. The timer of this one thread goes on.
            let waited = tokio::time::timeout(Duration::from_millis(20), password.text()).await;
            assert!(waited.is_err(), "{waited:?}");
        }
        // One open of the pipe was waiting, no more: then the next is of the file.
        let pipe = std::fs::File::options().write(true).open(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "hush-2").unwrap();
        drop(pipe);
        let text = tokio::time::timeout(Duration::from_secs(30), password.text()).await;
        assert_eq!(text.unwrap(), Ok("hush-2".to_owned()));
        std::fs::remove_file(&file).unwrap();
    }

    #[tokio::test]
    async fn no_text_of_it_is_shown() {
        let password = Password::new("hush");
        assert_eq!(password.text().await, Ok("hush".to_owned()));
        assert!(!format!("{password:?}").contains("hush"));
    }
}
