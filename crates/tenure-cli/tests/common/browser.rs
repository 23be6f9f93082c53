//! A real browser without a window: Chromium, told what to do by its DevTools protocol over a pipe. The protocol is JSON with a
//! zero byte after each message, so no library is needed for it.

use super::{LONG, Process};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

/// One page of a browser of its own, with a profile of its own.
pub struct Browser {
    process: Process,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What pages complained of: errors, and what their policy forbade.
    complaints: Vec<String>,
    profile: TempDir,
}

impl Browser {
    /// Fails where Chromium can't be started, whatever the reason.
    #[track_caller]
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The pipe's ends are descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 1>&2", "chromium", "--headless"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-quic"]);
        // There is nobody to talk to but the agent.
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        if nix::unistd::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", profile.path().join("profile").display()));
        // What it leaves behind there goes with the profile.
        command.env("TMPDIR", profile.path());
        let said = std::fs::File::create(profile.path().join("said")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let (commands, mut out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message).unwrap_or(Value::Null);
                message.clear();
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let process = Process::from(child);
        let mut browser =
            Browser { process, commands, messages, last: 0, session: None, complaints: vec![], profile };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// One command of the protocol, and what came of it.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.asked(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// As [`Self::call`], or why it was refused.
    #[track_caller]
    fn asked(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let sent = self.commands.write_all(format!("{message}\0").as_bytes());
        loop {
            let Ok(answer) = self.messages.recv_timeout(LONG) else {
                let said = std::fs::read_to_string(self.profile.path().join("said")).unwrap_or_default();
                panic!(
                    "Chromium does not answer {method} ({sent:?}, running: {}); it said:\n{said}",
                    self.process.is_running()
                );
            };
            if answer["id"] == self.last {
                let error = &answer["error"];
                return if error.is_null() { Ok(answer["result"].clone()) } else { Err(error.clone()) };
            }
            self.hear(&answer);
        }
    }

    fn hear(&mut self, event: &Value) {
        let entry = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &event["params"]["exceptionDetails"],
            // What a dead agent does not answer is no fault of the page.
            Some("Log.entryAdded") if event["params"]["entry"]["source"] != "network" => {
                &event["params"]["entry"]
            }
            Some("Page.javascriptDialogOpening") => &event["params"],
            _ => return,
        };
        self.complaints.push(entry.to_string());
    }

    /// What pages complained of until now.
    pub fn complaints(&mut self) -> &[String] {
        // All that came before its answer is heard.
        self.eval("0");
        &self.complaints
    }

    #[track_caller]
    pub fn open(&mut self, address: &str) {
        let opened = self.call("Page.navigate", json!({"url": address}));
        assert!(opened["errorText"].is_null(), "{opened}");
        self.wait_for("the page", "document.readyState === 'complete'");
    }

    /// Opens the page that is open again, as a new one.
    #[track_caller]
    pub fn reload(&mut self) {
        self.eval("window.isOld = true");
        self.call("Page.reload", json!({}));
        self.wait_for("the page to be new", "!window.isOld && document.readyState === 'complete'");
    }

    fn evaluated(&mut self, expression: &str) -> Result<Value, Value> {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        // It is refused, too, while another page takes the place of this one.
        let came = self.asked("Runtime.evaluate", asked)?;
        if came["exceptionDetails"].is_null() { Ok(came["result"]["value"].clone()) } else { Err(came) }
    }

    /// What an expression in the page comes to.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        self.evaluated(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true, in a page that may be on its way still.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, expression: &str) {
        super::wait_until(what, || self.evaluated(expression).is_ok_and(|value| value == true));
    }

    /// A key, pressed and let go, by its name.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "PageUp" => 33,
            "PageDown" => 34,
            "End" => 35,
            "Home" => 36,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            _ => 0,
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = json!("\r");
        } else if code == 0 {
            event["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// Into what has the focus.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The window's size, and whether the user likes it dark.
    pub fn look(&mut self, width: u32, height: u32, is_dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let likes = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", likes);
    }

    /// A picture of what is seen, kept as `target/dashboard/NAME.png`.
    pub fn picture(&mut self, name: &str) {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}
