//! One daemon of a site: its process, and what it says, which goes into a file in the directory of its host.

use super::{LIMIT, Service, SiteError};
use crate::ProcessGuard;
use crate::cluster::{Host, HostId};
use crate::wait;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// See the module. Killed when dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    guard: ProcessGuard,
    host: HostId,
    service: Service,
    log: PathBuf,
    /// What its predecessors said is before this byte.
    said_before: usize,
}

/// Where a service of a host says what it does.
pub(super) fn log_path(host: &Host, service: Service) -> PathBuf {
    host.directory().join(format!("{}.log", service.name()))
}

impl Daemon {
    pub(super) fn launch(host: &Host, service: Service, mut command: Command) -> Result<Daemon, SiteError> {
        let log = log_path(host, service);
        let open = File::options().create(true).append(true).open(&log);
        let said = open.map_err(SiteError::file(&log))?;
        let errors = said.try_clone().map_err(SiteError::file(&log))?;
        let before = said.metadata().map_err(SiteError::file(&log))?.len() as usize;
        command.stdin(Stdio::null()).stdout(said).stderr(errors);
        let guard = host.start(&mut command)?;
        Ok(Daemon { guard, host: host.id(), service, log, said_before: before })
    }

    /// Awaits that it is ready, which `is_ready` tells from what it said; its end is an error.
    pub(super) fn await_ready(&mut self, is_ready: impl Fn(&str) -> bool) -> Result<(), SiteError> {
        let mut ended = None;
        let ready = wait::wait_until("a daemon to be ready", LIMIT, || {
            ended = self.guard.ended();
            ended.is_some() || is_ready(&self.said())
        });
        if ready.is_ok() && ended.is_none() {
            return Ok(());
        }
        Err(SiteError::NotReady { host: self.host, service: self.service, ended, said: self.said() })
    }

    /// Sends a signal that does not end it.
    pub(super) fn signal(&self, signal: i32) {
        self.guard.signal(signal);
    }

    /// Sends a signal and awaits its end.
    pub(super) fn end(mut self, signal: i32) -> Result<(), SiteError> {
        self.guard.signal(signal);
        self.await_end()
    }

    pub(super) fn await_end(&mut self) -> Result<(), SiteError> {
        let ended = self.guard.ends_within(LIMIT);
        ended.map(drop).ok_or(SiteError::Immortal { host: self.host, service: self.service })
    }

    fn said(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.said_before..).unwrap_or_default()).into_owned()
    }
}
