//! The end of what a driver does, and those who wait for it.

use tokio::sync::oneshot;

/// Whether it is over, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_over: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Ending {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Told when it is over, or dropped with the driver, which is as good; none if it is over.
    pub(crate) fn wait(&mut self) -> Option<oneshot::Receiver<()>> {
        let (sender, ended) = oneshot::channel();
        (!self.is_over).then(|| {
            self.waiting.push(sender);
            ended
        })
    }

    /// It is over from now on.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        for waiting in std::mem::take(&mut self.waiting) {
            // Perhaps nobody waits any more.
            let _ = waiting.send(());
        }
    }
}
