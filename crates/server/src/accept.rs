//! The loop that accepts the connections of a protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::shared::Server;

/// Pause after a failed accept, such as when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stopped`. Each one runs as a task: the future that `connection`
/// returns for its socket and its permit, which is `None` if the maximum number of connections is
/// open. Returns the tasks that have not ended.
pub(crate) async fn accept<T>(
    server: &Server,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
    connection: impl Fn(TcpStream, Option<OwnedSemaphorePermit>) -> T,
) -> JoinSet<()>
where
    T: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(server.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return connections,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        server.counters.connections.fetch_add(1, Ordering::Relaxed);
        let place = Arc::clone(&places).try_acquire_owned().ok();
        if place.is_none() {
            server.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        // Sends small responses at once instead of waiting for more data.
        let _ = socket.set_nodelay(true);
        connections.spawn(connection(socket, place));
    }
}
