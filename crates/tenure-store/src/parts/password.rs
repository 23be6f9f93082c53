//! A password, and where it is kept.

use std::fmt;
use std::path::PathBuf;
use tenure_core::StoreError;

/// A password of a store's URL or configuration. No text of it is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Kept);

#[derive(Clone, PartialEq, Eq)]
enum Kept {
    Here(String),
    File(PathBuf),
}

impl Password {
    /// One that stays as it is.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Password {
        Password(Kept::Here(text.into()))
    }

    /// The first line of a file, where a password is best kept. The file is read for each login, so the password may be changed there.
    ///
    /// # Errors
    /// `Invalid`, which names the file: it can't be read now.
    pub fn in_file(file: impl Into<PathBuf>) -> Result<Password, StoreError> {
        let password = Password(Kept::File(file.into()));
        password.text().map(|_| password)
    }

    /// The password as it is now.
    ///
    /// # Errors
    /// `Invalid`, which names the file that can't be read.
    pub fn text(&self) -> Result<String, StoreError> {
        match &self.0 {
            Kept::Here(text) => Ok(text.clone()),
            Kept::File(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| StoreError::invalid(format!("the password file {file:?}: {error}")))?;
                Ok(text.lines().next().unwrap_or_default().to_owned())
            }
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kept::Here(_) => f.write_str("Password"),
            Kept::File(file) => write!(f, "Password in {file:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a file's first line, as it is when it is asked for; one that can't be read is named; nothing shows the text.
    use super::*;

    #[test]
    fn a_file_is_read_each_time_and_named_when_it_can_t_be() {
        let file = std::env::temp_dir().join(format!("tenure-password-{}", std::process::id()));
        std::fs::write(&file, "hush-1\nmore\n").unwrap();
        let password = Password::in_file(&file).unwrap();
        assert_eq!(password.text(), Ok("hush-1".to_owned()));
        std::fs::write(&file, "hush-2").unwrap();
        assert_eq!(password.text(), Ok("hush-2".to_owned()));
        std::fs::remove_file(&file).unwrap();
        for error in [password.text().unwrap_err(), Password::in_file(&file).unwrap_err()] {
            assert!(error.to_string().contains(&format!("the password file {file:?}")), "{error}");
        }
    }

    #[test]
    fn no_text_of_it_is_shown() {
        let password = Password::new("hush");
        assert_eq!(password.text(), Ok("hush".to_owned()));
        assert!(!format!("{password:?}").contains("hush"));
    }
}
