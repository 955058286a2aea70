//! A connection on which both sides have agreed.

use crate::backing::Registrar;
use crate::closings::Closings;
use crate::flags::Features;
use crate::handler::Handler;
use crate::notify::Notifier;
use crate::session::{self, Serving};
use crate::uring::Rings;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Not served yet: requests wait in the kernel. Dropping it cuts the mount.
#[derive(Debug)]
pub struct Connection {
    pub(crate) device: Arc<OwnedFd>,
    pub(crate) features: Features,
    pub(crate) request_bytes: usize,
    /// Requests come over io_uring.
    pub(crate) rings: Option<Rings>,
    pub(crate) closings: Arc<Closings>,
}

impl Connection {
    pub(crate) fn new(
        device: OwnedFd,
        features: Features,
        request_bytes: usize,
        rings: Option<Rings>,
    ) -> Connection {
        Connection { device: Arc::new(device), features, request_bytes, rings, closings: Arc::default() }
    }

    /// What was agreed.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Requests come over io_uring.
    pub fn is_over_io_uring(&self) -> bool {
        self.rings.is_some()
    }

    /// For telling the kernel that something changed.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(&self.device)
    }

    /// For handing files to the kernel.
    pub fn registrar(&self) -> Registrar {
        Registrar::new(&self.device)
    }

    /// For waiting until closes are served.
    pub fn closings(&self) -> Arc<Closings> {
        Arc::clone(&self.closings)
    }

    /// Whether each serving thread can have a descriptor, and with it a queue, of its own.
    pub fn can_have_queues(&self) -> bool {
        crate::device::clone(&self.device).is_ok()
    }

    /// Serves requests with threads of its own until the mount is gone and everything that was asked is answered.
    pub fn serve(self, handler: &dyn Handler, serving: &Serving) -> io::Result<()> {
        session::run(self, handler, serving)
    }
}
