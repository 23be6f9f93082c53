//! `cargo xtask dist`: what users install. A Debian package and an archive of the same files: the program, its manual pages, completions, and
//! licences, and examples for systemd and Kubernetes; of a static program the files of a container image, too. `test` makes them of the program that it has built anyway, installs the package, and runs from it.

mod image;
mod licences;

use crate::command::is_root;
use crate::step::{CheckStep, cargo};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tenure"),
    ("zsh", "usr/share/zsh/vendor-completions/_tenure"),
    ("fish", "usr/share/fish/vendor_completions.d/tenure.fish"),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DistRequest {
    /// For another target than this machine's, if one is named.
    Release { target: Option<String> },
    /// What `test` does, with that program.
    Check { program: PathBuf },
}

pub(crate) fn parse(words: &[String]) -> Result<DistRequest, String> {
    match words {
        [] => Ok(DistRequest::Release { target: None }),
        [option, target] if option == "--target" => Ok(DistRequest::Release { target: Some(target.clone()) }),
        [option, program] if option == "--check" => Ok(DistRequest::Check { program: program.into() }),
        _ => Err("dist takes nothing but --target TRIPLE or --check PROGRAM".to_owned()),
    }
}

/// Files to be installed, and what is made of them.
struct DistPackage {
    program: PathBuf,
    /// The directory of all that is made.
    place: PathBuf,
    target: String,
}

pub(crate) fn steps(asked: DistRequest, example: &Path, limit: Duration) -> Result<Vec<CheckStep>, String> {
    match asked {
        DistRequest::Release { target } => release(target),
        DistRequest::Check { program } => checks(&program, example, limit),
    }
}

/// Builds the program for a release, and packages it.
fn release(target: Option<String>) -> Result<Vec<CheckStep>, String> {
    let mut build =
        vec!["build", "--release", "--locked", "--package", "tenure-cli", "--features", "all-stores"];
    let mut program = target_directory();
    if let Some(target) = &target {
        build.extend(["--target", target]);
        program = program.join(target);
    }
    let build = CheckStep::cargo("build for a release", &build);
    let target = target.map_or_else(host, Ok)?;
    let program = program.join("release/tenure");
    let place = target_directory().join("dist");
    let package = DistPackage { program: program.clone(), place: place.clone(), target: target.clone() };
    let is_static = package.is_static();
    let packages = CheckStep::check("packages", move || {
        let (deb, archive) = (package.debian()?, package.archive()?);
        println!("{}\n{}", deb.display(), archive.display());
        Ok(())
    });
    let mut steps = vec![build, packages];
    if is_static {
        steps.push(CheckStep::check("image, and its program with nothing around it", move || {
            let files = image::stage(&program, &place, &target)?;
            println!("{}", files.display());
            image::check(&files, &place)
        }));
    }
    Ok(steps)
}

/// A version before a release is older than that, to Debian by a tilde alone.
fn debian_version(version: &str) -> String {
    format!("{}-1", version.replacen('-', "~", 1))
}

/// The pages of docs that the package has.
const PAGES: [&str; 8] =
    ["command-line", "configuration", "install", "json", "operate", "parallel", "promises", "stores"];

/// A page whose links lead to the sources of this version, but for those to other pages of docs, where it is one of these. `folder`: where it is in the sources.
fn linked(page: &str, folder: &str) -> String {
    let mut parts = page.split("](");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let target = part.split([')', '#']).next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.is_empty();
        let is_here = folder == "docs" && PAGES.iter().any(|page| target.strip_suffix(".md") == Some(page));
        linked.push_str("](");
        if !is_elsewhere && !is_here {
            linked.push_str(&format!("https://github.com/tenure-rs/tenure/blob/v{VERSION}/"));
        }
        match part.strip_prefix("../") {
            Some(above) if !is_elsewhere => linked.push_str(above),
            None if !is_elsewhere && !is_here => linked.push_str(&format!("{folder}/{part}")),
            _ => linked.push_str(part),
        }
    }
    linked
}

/// Packages `program`, installs the package in a root of its own, and runs `example` from there.
pub(crate) fn checks(program: &Path, example: &Path, limit: Duration) -> Result<Vec<CheckStep>, String> {
    let place = target_directory().join("dist-test");
    let package = DistPackage { program: program.to_owned(), place: place.clone(), target: host()? };
    let root = place.join("installed");
    let installed = root.clone();
    let install = CheckStep::check("the Debian package is installed", move || {
        let deb = package.debian()?;
        install(&deb, &installed)?;
        is_private(&installed.join("var/lib/tenure"))?;
        licences::check(&installed)?;
        package.archive()?;
        verify_units(&installed)
    });
    let mut example = Command::new(example);
    example.env("TENURE_PROGRAM", root.join("usr/bin/tenure"));
    Ok(vec![install, CheckStep::command("example from the Debian package", example).within(limit)])
}

fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from)
}

/// This machine's target.
fn host() -> Result<String, String> {
    let mut rustc = Command::new(cargo());
    let told = output(rustc.args(["version", "--verbose"]))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "cargo does not tell its host".to_owned())
}

impl DistPackage {
    fn is_static(&self) -> bool {
        self.target.ends_with("musl")
    }

    /// All files, where they are to be installed below a new directory.
    fn stage(&self) -> Result<PathBuf, String> {
        let root = self.place.join("files");
        clear(&root)?;
        let put = |from: &Path, to: &str, mode: &str| {
            run(Command::new("install").args(["-D", "-m", mode]).arg(from).arg(root.join(to)))
        };
        put(&self.program, "usr/bin/tenure", "755")?;
        run(Command::new("strip").arg(root.join("usr/bin/tenure")))?;
        for (shell, place) in SHELLS {
            let script = output(Command::new(&self.program).args(["completions", shell]))?;
            write(&root.join(place), &script)?;
        }
        run(Command::new(&self.program).args(["man", "--install"]).arg(root.join("usr/share/man")))?;
        let doc = "usr/share/doc/tenure";
        let source = Path::new(ROOT);
        put(&source.join("CHANGELOG.md"), &format!("{doc}/changelog"), "644")?;
        put(&source.join("packaging/debian/copyright"), &format!("{doc}/copyright"), "644")?;
        licences::stage(&root, &self.target)?;
        put(&source.join("packaging/debian/default"), "etc/default/tenure", "644")?;
        let put_page = |from: &str, folder: &str, to: &str| {
            let text =
                std::fs::read_to_string(source.join(from)).map_err(|error| format!("{from}: {error}"))?;
            let page = self.place.join("page");
            write(&page, &linked(&text, folder))?;
            put(&page, to, "644")
        };
        for page in PAGES {
            put_page(&format!("docs/{page}.md"), "docs", &format!("{doc}/{page}.md"))?;
        }
        for (kind, from) in
            [("systemd", "packaging/systemd"), ("kubernetes", "packaging/kubernetes"), ("ops", "ops")]
        {
            for file in files(&source.join(from))? {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                put(&file, &format!("{doc}/examples/{kind}/{name}"), "644")?;
            }
        }
        put_page("ops/README.md", "ops", &format!("{doc}/examples/ops/README.md"))?;
        let mut pages = files(&root.join("usr/share/man/man1"))?;
        pages.push(root.join(doc).join("changelog"));
        run(Command::new("gzip").arg("-9n").args(pages))?;
        // That of system users' default store, for root alone: whoever may read a store's files can hold up its leases.
        run(Command::new("install").args(["-d", "-m", "700"]).arg(root.join("var/lib/tenure")))?;
        Ok(root)
    }

    fn debian(&self) -> Result<PathBuf, String> {
        let root = self.stage()?;
        let architecture = match self.target.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            _ => return Err(format!("Debian's name for {} is not known here", self.target)),
        };
        // What is static needs nothing. Otherwise symbols of the libc here are in the program, so an older one won't do.
        let depends = if self.is_static() {
            String::new()
        } else {
            let libc =
                output(Command::new("dpkg-query").args(["--show", "--showformat=${Version}", "libc6"]))?;
            let libc = libc.split('-').next().unwrap_or_default();
            format!("Depends: libc6 (>= {libc}), libgcc-s1\n")
        };
        let size = output(Command::new("du").arg("-sk").arg(&root))?;
        let size = size.split_whitespace().next().unwrap_or("0").to_owned();
        let version = debian_version(VERSION);
        let control = format!(
            "Package: tenure\nVersion: {version}\nArchitecture: {architecture}\nSection: admin\nPriority: optional\n\
             Maintainer: The tenure developers <tenure-rs@users.noreply.github.com>\n\
             Homepage: https://github.com/tenure-rs/tenure\nInstalled-Size: {size}\n{depends}Recommends: ca-certificates\n\
             Description: leases, locks, leaders and shared work for commands\n \
             Runs a command under a lock that processes of one host or many share, on a store\n \
             that is there already: a SQLite file, PostgreSQL, Redis, etcd, DynamoDB.\n"
        );
        write(&root.join("DEBIAN/control"), &control)?;
        write(&root.join("DEBIAN/conffiles"), "/etc/default/tenure\n")?;
        // Without the tilde, which GitHub takes for no character of a file's name.
        let deb = self.place.join(format!("tenure_{VERSION}-1_{architecture}.deb"));
        let made = run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "-z1", "--build"])
            .arg(&root)
            .arg(&deb));
        made.map(|()| deb)
    }

    /// The same files for systems without dpkg.
    fn archive(&self) -> Result<PathBuf, String> {
        let archive = self.place.join(format!("tenure-{VERSION}-{}.tar.gz", self.target));
        let files = self.place.join("files");
        run(Command::new("tar")
            .args(["--create", "--gzip", "--owner=0", "--group=0", "--exclude=./DEBIAN", "--file"])
            .arg(&archive)
            .arg("-C")
            .arg(&files)
            .arg("."))?;
        Ok(archive)
    }
}

/// As dpkg does it, below `root`, where nothing else is installed; only unpacked where that takes rights that we lack.
fn install(deb: &Path, root: &Path) -> Result<(), String> {
    clear(root)?;
    if !is_root() {
        return run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(root));
    }
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        let directory = root.join(directory);
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    write(&root.join("var/lib/dpkg/status"), "")?;
    let mut option = std::ffi::OsString::from("--root=");
    option.push(root);
    // What it depends on is not below there.
    run(Command::new("dpkg").arg(option).args(["--force-depends", "--install"]).arg(deb))
}

/// Whether a directory is open to its user alone.
fn is_private(directory: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    match found.permissions().mode() & 0o777 {
        0o700 => Ok(()),
        mode => Err(format!("{} has the mode {mode:o}, not 700", directory.display())),
    }
}

/// The examples for systemd, by systemd's own words where it is here.
fn verify_units(root: &Path) -> Result<(), String> {
    let units = files(&root.join("usr/share/doc/tenure/examples/systemd"))?;
    if units.is_empty() {
        return Err("the package has no units for systemd".to_owned());
    }
    let is_there = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!("systemd-analyze is not here: units are not verified");
        return Ok(());
    }
    let place = root.join("etc/systemd/system");
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let mut names = Vec::new();
    for unit in units {
        run(Command::new("cp").arg(&unit).arg(&place))?;
        names.extend(unit.file_name().map(std::ffi::OsStr::to_owned));
    }
    let mut option = std::ffi::OsString::from("--root=");
    option.push(root);
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(option).args(names);
    let told = verify.output().map_err(|error| format!("systemd-analyze: {error}"))?;
    if told.status.success() {
        return Ok(());
    }
    Err(format!("systemd-analyze verify: {}", String::from_utf8_lossy(&told.stderr)))
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let error = |error: std::io::Error| format!("{}: {error}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(error)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(error)?;
    files.sort();
    Ok(files)
}

fn clear(directory: &Path) -> Result<(), String> {
    let removed = std::fs::remove_dir_all(directory);
    // That there was none is no mistake.
    if let Err(error) = removed
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(format!("{}: {error}", directory.display()));
    }
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(error)?;
    std::fs::write(path, text).map_err(error)
}

fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

/// What it writes, if it ends well.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|error| format!("{program}: {error}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("{program}: {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_target_is_asked_for() {
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(parse(&[]), Ok(DistRequest::Release { target: None }));
        assert_eq!(parse(&words("--target x")), Ok(DistRequest::Release { target: Some("x".to_owned()) }));
        assert_eq!(parse(&words("--check x")), Ok(DistRequest::Check { program: "x".into() }));
        assert!(parse(&words("--target")).is_err() && parse(&words("x")).is_err());
    }

    #[test]
    fn to_debian_a_release_is_newer_than_what_came_before_it() {
        assert_eq!(debian_version("0.2.0"), "0.2.0-1");
        let before = debian_version("0.2.0-rc.1");
        assert_eq!(before, "0.2.0~rc.1-1");
        assert!(crate::command::succeeds("dpkg", &["--compare-versions", "0.2.0-1", "gt", &before]));
    }

    #[test]
    fn links_lead_to_pages_that_are_there_or_to_the_sources() {
        let sources = format!("https://github.com/tenure-rs/tenure/blob/v{VERSION}");
        let above = ["..", "ops/README.md"].join("/");
        for (link, leads_to) in [
            ("operate.md#clocks", "operate.md#clocks".to_owned()),
            ("#clocks", "#clocks".to_owned()),
            ("https://a.example/b.md", "https://a.example/b.md".to_owned()),
            (above.as_str(), format!("{sources}/ops/README.md")),
            ("design/jobs.md#x", format!("{sources}/docs/design/jobs.md#x")),
        ] {
            let page = |link: &str| format!("see [it]({link}), a [b](json.md)");
            assert_eq!(linked(&page(link), "docs"), page(&leads_to));
        }
        assert_eq!(linked("[a](grafana.json)", "ops"), format!("[a]({sources}/ops/grafana.json)"));
        // Wherever they lead in the sources, there is something.
        for (folder, file) in PAGES
            .iter()
            .map(|page| ("docs", format!("docs/{page}.md")))
            .chain([("ops", "ops/README.md".to_owned())])
        {
            let page = linked(&std::fs::read_to_string(Path::new(ROOT).join(&file)).unwrap(), folder);
            for rest in page.split(&format!("]({sources}/")).skip(1) {
                let path = rest.split([')', '#']).next().unwrap();
                assert!(Path::new(ROOT).join(path).exists(), "{file}: {path}");
            }
        }
    }
}
