//! The scripts, one for each operation. The server keeps them by their digests, until it is restarted or flushed.

use redis::Cmd;

/// A script, and the digest by which a server knows it.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    digest: String,
}

impl Script {
    fn new(text: String) -> Script {
        Script { digest: redis::Script::new(&text).get_hash().to_owned(), text }
    }

    fn of_records(body: &str) -> Script {
        Script::new(format!("{}{body}", include_str!("scripts/common.lua")))
    }
}

/// All scripts of this store.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) meta: Script,
    pub(crate) write: Script,
    pub(crate) read: Script,
    pub(crate) page: Script,
    pub(crate) remove: Script,
    pub(crate) mend: Script,
    pub(crate) guard: Script,
}

impl Scripts {
    pub(crate) fn new() -> Scripts {
        Scripts {
            meta: Script::new(include_str!("scripts/meta.lua").to_owned()),
            write: Script::of_records(include_str!("scripts/write.lua")),
            read: Script::of_records(include_str!("scripts/read.lua")),
            page: Script::of_records(include_str!("scripts/page.lua")),
            remove: Script::of_records(include_str!("scripts/remove.lua")),
            mend: Script::of_records(include_str!("scripts/mend.lua")),
            guard: Script::of_records(include_str!("scripts/guard.lua")),
        }
    }
}

/// A call of a script. Its keys are all that it touches, so that a cluster knows where it belongs.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    script: &'a Script,
    keys: &'a [String],
    arguments: Vec<&'a [u8]>,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(script: &'a Script, keys: &'a [String]) -> Invocation<'a> {
        Invocation { script, keys, arguments: Vec::new() }
    }

    pub(crate) fn arg(mut self, argument: &'a [u8]) -> Self {
        self.arguments.push(argument);
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// By its digest: enough while the server knows it.
    pub(crate) fn by_digest(&self) -> Cmd {
        self.command("EVALSHA", &self.script.digest)
    }

    /// As a whole, which the server keeps from then on.
    pub(crate) fn whole(&self) -> Cmd {
        self.command("EVAL", &self.script.text)
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        for key in self.keys {
            command.arg(key);
        }
        for argument in &self.arguments {
            command.arg(*argument);
        }
        command
    }
}
