//! Accepts connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::output;
use super::startup::{self, Started};
use super::state::Session;
use super::wire::Wire;
use crate::accept::accept;
use crate::error::{PgError, code};
use crate::session::SessionCore;
use crate::shared::Server;

/// Accepts connections until `stopped`, then returns once all of them have ended.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener, stopped: watch::Receiver<bool>) {
    let mut connections = accept(&server, listener, stopped.clone(), |socket, place| {
        let (server, stopped) = (Arc::clone(&server), stopped.clone());
        async move {
            match place {
                Some(place) => {
                    connection(&server, socket, stopped).await;
                    drop(place);
                }
                None => refuse(socket).await,
            }
        }
    })
    .await;
    while connections.join_next().await.is_some() {}
}

/// Sends the error that there are too many connections.
async fn refuse(socket: TcpStream) {
    let mut wire = Wire::new(Box::new(socket), 0, Duration::from_secs(1));
    output::error(&mut wire.out, &PgError::fatal(code::TOO_MANY_CONNECTIONS, "there are too many connections already"));
    wire.close().await;
}

async fn connection(server: &Arc<Server>, socket: TcpStream, mut stopped: watch::Receiver<bool>) {
    let Ok(client) = socket.peer_addr() else { return };
    let started = tokio::time::timeout(server.limits.authentication, startup::start(server, socket, client));
    let started = tokio::select! {
        started = started => started,
        _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
    };
    let Started { mut wire, listed, account, engine, variables } = match started {
        Ok(Some(started)) => started,
        Ok(None) => return,
        Err(_) => {
            server.counters.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let entry = Arc::clone(&listed.entry);
    let core = SessionCore::new(Arc::clone(server), Arc::clone(&entry), account, engine, variables);
    let mut session = Session::new(Arc::new(core));
    let ended = tokio::select! {
        ended = session.run(&mut wire, stopped) => ended,
        () = entry.terminated() => Some(PgError::fatal(code::SHUTDOWN, "an administrator ended the session")),
    };
    // Dropped first, so that queries end before the error is sent to the client.
    drop(session);
    if let Some(error) = ended {
        output::error(&mut wire.out, &error);
    }
    wire.close().await;
    drop(listed);
}
