//! After an unclean end: what other servers hold of files whose names are kept here is looked through, in the background.
//!
//! The other servers may start later than this one, so it is tried until they all have answered. Nothing waits for it: until
//! then files are looked at one by one as they are used. It ends with its owner, wherever it is.

use forebay_server::node::Tree;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Sweeper {
    /// Dropped, it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Begins.
    pub(super) fn start(tree: Arc<Tree>) -> io::Result<Sweeper> {
        let (stop, stopped) = channel::<()>();
        let sweep = move || {
            // An error is a server that is away. The next try says the same, or succeeds: nobody can do anything meanwhile.
            while tree.sweep().is_err() {
                if stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("sweep".into()).spawn(sweep);
        Ok(Sweeper { stop: Some(stop), thread: Some(thread?) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of a thread was reported by it.
            let _ = thread.join();
        }
    }
}
