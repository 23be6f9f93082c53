//! Two kinds of tests would never run, without a word: those behind a feature that the run does not switch on, and those in a file that no program has.

use crate::program;
use crate::workspace::{Target, TargetKind, WorkspacePackage, packages};
use std::path::{Path, PathBuf};

pub(crate) fn check() -> Result<(), String> {
    let packages = packages()?;
    for package in &packages {
        for target in package.targets.iter().filter(|target| target.kind == TargetKind::Test) {
            let is_on = |feature: &str| {
                [&target.needs, &package.defaults, &package.stores]
                    .iter()
                    .any(|on| on.iter().any(|on| on == feature))
            };
            for file in files(package, target)? {
                if let Some(feature) = conditions(&read(&file)?).find(|feature| !is_on(feature)) {
                    return Err(format!(
                        "{} has tests behind the feature `{feature}`, which nothing runs; \
                         move them to a target with required-features = [\"{feature}\"]",
                        file.display()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The files of a program of tests. Each file beside a main file must be one of its modules, or another program.
fn files(package: &WorkspacePackage, target: &Target) -> Result<Vec<PathBuf>, String> {
    let mut files = vec![target.path.clone()];
    if !target.path.ends_with(program::MANY) {
        return Ok(files);
    }
    let main = read(&target.path)?;
    let folder = target.path.parent().unwrap_or(Path::new("."));
    let error = |error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if !is_source || package.targets.iter().any(|target| target.path == path) {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !main.lines().any(|line| line == format!("mod {name};")) {
            let (path, main) = (path.display(), target.path.display());
            return Err(format!("nothing runs {path}: add `mod {name};` to {main}"));
        }
        files.push(path);
    }
    Ok(files)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The features that are asked for by `cfg`s in a source text.
fn conditions(text: &str) -> impl Iterator<Item = &str> {
    let cfgs = text.lines().filter(|line| {
        ["#[cfg", "#![cfg"].iter().any(|cfg| line.trim_start().starts_with(cfg)) || line.contains("cfg!(")
    });
    cfgs.flat_map(|line| line.split("feature = \"").skip(1).filter_map(|rest| rest.split('"').next()))
}

#[cfg(test)]
mod tests {
    //! Plan: features in conditions of every form; files that nothing runs; this workspace has none of either.
    use super::*;

    #[test]
    fn tests_behind_features_are_noticed() {
        let text = "#![cfg(feature = \"w\")]\n#[cfg(feature = \"a\")]\n#[test]\nfn t() {}\n    #[cfg(all(test, feature = \"b\"))]\n// cfg(feature = \"c\")";
        assert_eq!(conditions(text).collect::<Vec<_>>(), ["w", "a", "b"]);
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn tests_in_a_file_that_nothing_runs_are_noticed() {
        let folder = std::env::temp_dir().join(format!("tenure-xtask-{}", std::process::id())).join("tests");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("main.rs", "mod a;\n");
        write("a.rs", "");
        write("alone.rs", "");
        let at = |name: &str| Target {
            package: "p".into(),
            name: name.into(),
            kind: TargetKind::Test,
            needs: vec![],
            path: folder.join(name),
        };
        let package = WorkspacePackage {
            name: "p".into(),
            features: vec![],
            passed_on: vec![],
            defaults: vec![],
            stores: vec![],
            is_published: true,
            targets: vec![at("main.rs"), at("alone.rs")],
        };
        let found = files(&package, &package.targets[0]).unwrap();
        assert_eq!(found, [folder.join("main.rs"), folder.join("a.rs")]);
        write("b.rs", "");
        assert!(files(&package, &package.targets[0]).unwrap_err().contains("add `mod b;`"));
        std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }
}
