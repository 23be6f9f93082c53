//! Wall clocks that jump, each of one process: see `wall.c`.

use crate::process::run;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("wall.c");

/// Compiles what is preloaded into processes; tells where it is.
pub(crate) fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("wall.c"), folder.join("wall.so"));
    std::fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source);
    run(&mut compiler)?;
    Ok(library)
}

/// The wall clock of those processes that were started with [`Wall::environment`].
#[derive(Debug)]
pub(crate) struct Wall {
    library: PathBuf,
    file: PathBuf,
}

impl Wall {
    /// One that shows the true time.
    pub(crate) fn new(library: &Path, file: PathBuf) -> Result<Wall, String> {
        let wall = Wall { library: library.to_owned(), file };
        let error = |error| format!("{}: {error}", wall.file.display());
        std::fs::write(&wall.file, [0; 16]).map_err(error)?;
        // Servers run under users of their own.
        std::fs::set_permissions(&wall.file, std::fs::Permissions::from_mode(0o666)).map_err(error)?;
        Ok(wall)
    }

    /// What makes a process go by it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TENURE_FAULTS_WALL", self.file.display().to_string()),
        ]
    }

    /// Sets it apart from the true time by so many seconds.
    pub(crate) fn jump(&self, seconds: i64) -> Result<(), String> {
        self.at(0, |file, at| file.write_all_at(&seconds.to_ne_bytes(), at))
    }

    /// How often a process was shown another than the true time.
    pub(crate) fn shown(&self) -> Result<u64, String> {
        let mut bytes = [0; 8];
        self.at(8, |file, at| file.read_exact_at(&mut bytes, at))?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn at(
        &self,
        at: u64,
        act: impl FnOnce(&std::fs::File, u64) -> std::io::Result<()>,
    ) -> Result<(), String> {
        let file = std::fs::File::options().read(true).write(true).open(&self.file);
        file.and_then(|file| act(&file, at)).map_err(|error| format!("{}: {error}", self.file.display()))
    }
}
