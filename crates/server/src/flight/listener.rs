//! Accepts connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::{FutureExt, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::connection::{Bytes, Connection, Socket};
use super::service::Service;
use super::sessions::FlightSessions;
use crate::accept::accept;
use crate::shared::Server;

/// Interval at which a client is asked whether it is still there, and how long its answer may take.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);

/// Maximum concurrent calls of a connection.
const MAX_CALLS: u32 = 256;

/// Interval at which unused sessions are ended.
const SWEEP: Duration = Duration::from_secs(60);

/// Accepts connections until `stopped`, then returns once all of their calls have ended.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener, stopped: watch::Receiver<bool>) {
    let sessions = Arc::new(FlightSessions::new(Arc::clone(&server)));
    let service = FlightServiceServer::new(Service::new(Arc::clone(&sessions)))
        .max_decoding_message_size(server.limits.message_bytes)
        .max_encoding_message_size(usize::MAX);
    let (sockets, accepted) = mpsc::channel(16);
    let incoming = stream::unfold(accepted, |mut accepted| async move {
        accepted.recv().await.map(|socket| (Ok::<Socket, io::Error>(socket), accepted))
    });
    let mut builder = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        .max_concurrent_streams(Some(MAX_CALLS));
    let mut signal = stopped.clone();
    let serving = builder.add_service(service).serve_with_incoming_shutdown(incoming, async move {
        drop(signal.wait_for(|is_stopped| *is_stopped).await);
    });
    let shared = Arc::clone(&server);
    let accepting = accept(&server, listener, stopped, move |socket, place| {
        let (server, sockets) = (Arc::clone(&shared), sockets.clone());
        async move {
            let Some(place) = place else { return };
            let patience = server.limits.authentication;
            if let Ok(Ok(socket)) = tokio::time::timeout(patience, start(&server, socket, place)).await {
                // An error means that the server is stopping.
                drop(sockets.send(socket).await);
            } else {
                server.counters.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let sweeping = async {
        loop {
            tokio::time::sleep(SWEEP).await;
            sessions.sweep();
        }
    };
    let served = tokio::select! {
        (served, ()) = async { tokio::join!(serving, accepting.map(drop)) } => served,
        () = sweeping => return,
    };
    if let Err(error) = served {
        tracing::warn!(%error, "Flight SQL has ended");
    }
}

async fn start(server: &Server, socket: TcpStream, place: OwnedSemaphorePermit) -> io::Result<Socket> {
    let connection = Connection::new(socket.peer_addr()?);
    let bytes: Box<dyn Bytes> = match &server.flight_tls {
        Some(tls) => Box::new(tls.acceptor().accept(socket).await?),
        None => Box::new(socket),
    };
    Ok(Socket::new(bytes, connection, server.limits.authentication, place))
}
