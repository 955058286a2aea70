//! Listening: sockets are bound, connections accepted, counted and spoken with.
//!
//! A connection over the limits is closed at once. Runs on the network's runtime.

use super::config::Config;
use super::conversation::{Peer, Shared, answer};
use super::error::ServiceError;
use super::limits::*;
use super::patient::Patient;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

/// Everybody may connect: who it is, the kernel says.
const SOCKET_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o755;
/// Pause after a connection could not be accepted because there are no files left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is listened on.
pub(super) struct Bound {
    network: Vec<TcpListener>,
    local: Option<UnixListener>,
}

impl Bound {
    /// Addresses on the network.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, ServiceError> {
        let addresses = self.network.iter().map(TcpListener::local_addr).collect::<io::Result<_>>();
        addresses.map_err(ServiceError::Runtime)
    }
}

/// Binds everything that the configuration names. A socket that a dead controller left is replaced; that there is no
/// living one, the lock of the state directory has shown.
pub(super) async fn bind(config: &Config) -> Result<Bound, ServiceError> {
    let mut network = Vec::new();
    for address in &config.listen {
        let fail = |source| ServiceError::Listen { address: address.clone(), source };
        network.push(TcpListener::bind(address).await.map_err(fail)?);
    }
    let local = config.socket.as_deref().map(bind_local).transpose()?;
    Ok(Bound { network, local })
}

fn bind_local(path: &Path) -> Result<UnixListener, ServiceError> {
    let fail = |source| ServiceError::Listen { address: path.display().to_string(), source };
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        // Whatever the mask of the process is, everybody has to get to the socket.
        std::fs::create_dir_all(parent).map_err(fail)?;
        std::fs::set_permissions(parent, std::fs::Permissions::from_mode(DIRECTORY_MODE)).map_err(fail)?;
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let reason = "somebody listens there already";
        return Err(fail(io::Error::new(io::ErrorKind::AddrInUse, reason)));
    }
    match std::fs::symlink_metadata(path) {
        Ok(old) if std::os::unix::fs::FileTypeExt::is_socket(&old.file_type()) => {
            std::fs::remove_file(path).map_err(fail)?;
        }
        Ok(_) => return Err(fail(io::Error::new(io::ErrorKind::AlreadyExists, "it is no socket"))),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(fail)?;
    Ok(listener)
}

/// Accepts for ever.
pub(super) async fn accept(bound: Bound, shared: Arc<Shared>, room: Room) {
    let remote = Arc::new(Semaphore::new(room.remote));
    for listener in bound.network {
        tokio::spawn(accept_network(listener, Arc::clone(&remote), Arc::clone(&shared)));
    }
    if let Some(listener) = bound.local {
        accept_local(listener, shared, room.local).await;
    }
}

async fn accept_network(listener: TcpListener, places: Arc<Semaphore>, shared: Arc<Shared>) {
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let ip = address.ip();
        let (Ok(place), Some(counted)) =
            (Arc::clone(&places).try_acquire_owned(), shared.limits.remote.enter(ip))
        else {
            continue;
        };
        let prepared = stream.set_nodelay(true).and_then(|()| crate::client::keep_alive(stream.as_fd()));
        if prepared.is_err() {
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _places = (place, counted);
            speak(stream, Peer::Remote { ip }, shared).await;
        });
    }
}

async fn accept_local(listener: UnixListener, shared: Arc<Shared>, room: usize) {
    let places = Arc::new(Semaphore::new(room));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else { continue };
        // The workload manager and operators are let in whatever the others do.
        let ordinary = !shared.settings.is_workload_manager(uid);
        let place = match ordinary {
            true => shared.limits.local.enter(uid).zip(Arc::clone(&places).try_acquire_owned().ok()),
            false => None,
        };
        if ordinary && place.is_none() {
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _place = place;
            speak(stream, Peer::Local { uid }, shared).await;
        });
    }
}

/// Speaks HTTP until one side has enough. What goes wrong with a connection ends it and nothing else.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    shared: Arc<Shared>,
) {
    let service = service_fn(move |request| answer(Arc::clone(&shared), peer, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    drop(connection.await);
}
