//! The start of a connection: the startup packet, TLS and passwords.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pushdowndb_contract::Error;
use pushdowndb_engine::Engine;
use tokio::net::TcpStream;

use super::input::{self, Fields, MAX_STARTUP_BYTES, Startup};
use super::output::{self, Status};
use super::wire::{Lost, Wire};
use crate::activity::sessions::Listed;
use crate::error::{PgError, code};
use crate::shared::Server;
use crate::users::Account;
use crate::users::scram::{Exchange, MECHANISM, Verifier};
use crate::variables::SharedVariables;

/// Delay of the response to a wrong password.
const DELAY: Duration = Duration::from_millis(500);

/// Maximum requests for encryption before a session.
const MAX_REQUESTS: usize = 4;

/// The session of an authenticated client.
pub(super) struct Started {
    pub wire: Wire,
    pub listed: Listed,
    pub account: Arc<Account>,
    pub engine: Engine,
    pub variables: SharedVariables,
}

/// Why a connection ends before its session begins.
enum Refused {
    Lost,
    Told(PgError),
}

impl From<Lost> for Refused {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self::Lost,
            Lost::Protocol(error) => Self::Told(protocol(&error)),
        }
    }
}

fn protocol(error: &Error) -> PgError {
    PgError::fatal(code::PROTOCOL, error.to_string())
}

/// Starts the session of a client. Returns `None` if the connection ends without a session.
pub(super) async fn start(server: &Arc<Server>, socket: TcpStream, client: SocketAddr) -> Option<Started> {
    let mut wire = Wire::new(Box::new(socket), MAX_STARTUP_BYTES, server.limits.client_stall);
    let mut is_secure = false;
    for _ in 0..MAX_REQUESTS {
        let packet = match wire.startup(MAX_STARTUP_BYTES).await {
            Ok(packet) => packet,
            Err(Lost::Gone) => return None,
            Err(Lost::Protocol(error)) => return refuse(server, wire, &protocol(&error)).await,
        };
        match input::startup(&packet) {
            Ok(Startup::Cancel { pid, secret }) => {
                server.sessions.cancel_by_secret(pid, &secret);
                return None;
            }
            Ok(Startup::Tls) => match &server.tls {
                Some(tls) if !is_secure => {
                    wire.out.push(b'S');
                    wire.flush().await.ok()?;
                    let socket = wire.into_socket().ok()?;
                    let secured = tls.acceptor().accept(socket).await.ok()?;
                    wire = Wire::new(Box::new(secured), MAX_STARTUP_BYTES, server.limits.client_stall);
                    is_secure = true;
                }
                _ => {
                    wire.out.push(b'N');
                    wire.flush().await.ok()?;
                }
            },
            Ok(Startup::Gss) => {
                wire.out.push(b'N');
                wire.flush().await.ok()?;
            }
            Ok(Startup::Session { minor, parameters }) => {
                if server.tls.is_some() && !is_secure {
                    let error = PgError::fatal(code::INVALID_AUTHORIZATION, "this server speaks TLS only")
                        .with_hint("connect with sslmode=require, or stronger");
                    return refuse(server, wire, &error).await;
                }
                return match session(server, &mut wire, client, minor, &parameters).await {
                    Ok((listed, account, engine, variables)) => {
                        Some(Started { wire, listed, account, engine, variables })
                    }
                    Err(Refused::Lost) => None,
                    Err(Refused::Told(error)) => refuse(server, wire, &error).await,
                };
            }
            Err(error) => return refuse(server, wire, &protocol(&error)).await,
        }
    }
    None
}

async fn refuse(server: &Server, mut wire: Wire, error: &PgError) -> Option<Started> {
    server.counters.refused.fetch_add(1, Ordering::Relaxed);
    output::error(&mut wire.out, error);
    wire.close().await;
    None
}

async fn session(
    server: &Arc<Server>,
    wire: &mut Wire,
    client: SocketAddr,
    minor: u16,
    parameters: &[(String, String)],
) -> Result<(Listed, Arc<Account>, Engine, SharedVariables), Refused> {
    let find = |name: &str| parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let invalid = |message: &str| Refused::Told(PgError::fatal(code::INVALID_AUTHORIZATION, message.to_owned()));
    let user = find("user").filter(|user| !user.is_empty()).ok_or_else(|| invalid("no user is given"))?;
    if user.len() > 63 {
        return Err(invalid("a user's name has at most 63 bytes"));
    }
    if find("replication").is_some_and(|value| !["false", "off", "no", "0"].contains(&value)) {
        return Err(Refused::Told(PgError::fatal(code::UNSUPPORTED, "this server has no replication")));
    }
    let database = find("database").filter(|name| !name.is_empty()).unwrap_or(user);
    let options: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !options.is_empty() {
        output::negotiate_version(&mut wire.out, &options);
    }
    let account = authenticate(server, wire, user, client).await?;
    let variables = SharedVariables::default();
    for (name, value) in given_settings(parameters) {
        // Unknown settings are ignored, so that the client is not refused because of them.
        drop(variables.set(&name, &value));
    }
    let engine = account.session(&server.engine).await;
    let engine = engine.map_err(|error| Refused::Told(PgError { is_fatal: true, ..PgError::from(&error) }))?;
    let application = variables.get("application_name").unwrap_or_default();
    let listed = server.sessions.add(user.into(), database.into(), application.as_str().into(), client);
    output::authentication(&mut wire.out, 0, &[]);
    for (name, value) in variables.reported() {
        output::parameter_status(&mut wire.out, name, &value);
    }
    output::parameter_status(&mut wire.out, "session_authorization", user);
    output::backend_key(&mut wire.out, listed.entry.pid, listed.entry.secret());
    output::ready(&mut wire.out, Status::Idle);
    wire.flush().await?;
    wire.set_limit(server.limits.message_bytes);
    Ok((listed, account, engine, variables))
}

/// The settings among the startup parameters, including those in `options`: `-c name=value`.
fn given_settings(parameters: &[(String, String)]) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {
                let mut words = value.split_whitespace();
                while let Some(word) = words.next() {
                    let given = match word.strip_prefix("-c") {
                        Some("") => words.next(),
                        Some(setting) => Some(setting),
                        None => word.strip_prefix("--"),
                    };
                    if let Some((name, value)) = given.and_then(|setting| setting.split_once('=')) {
                        settings.push((name.replace('-', "_"), value.replace("\\ ", " ")));
                    }
                }
            }
            _ => settings.push((name.clone(), value.clone())),
        }
    }
    settings
}

/// Authenticates a user, if passwords are required, and returns the account.
async fn authenticate(
    server: &Server,
    wire: &mut Wire,
    user: &str,
    client: SocketAddr,
) -> Result<Arc<Account>, Refused> {
    let users = server.users.get();
    let account = users.find(user);
    if !users.have_passwords() {
        return account.ok_or(Refused::Lost);
    }
    // An unknown user goes through the same exchange, which fails for every password.
    let verifier = account.as_ref().and_then(|account| account.user.verifier.clone());
    let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(user, &server.secret));
    output::authentication(&mut wire.out, 10, format!("{MECHANISM}\0\0").as_bytes());
    wire.flush().await?;
    let malformed = |error: &Error| Refused::Told(protocol(error));
    let first = password_message(wire).await?;
    let mut fields = Fields::new(&first);
    let mechanism = fields.text().map_err(|error| malformed(&error))?;
    if mechanism != MECHANISM {
        return Err(Refused::Told(PgError::fatal(code::PROTOCOL, "this mechanism of passwords was not offered")));
    }
    let length = fields.int32().map_err(|error| malformed(&error))?;
    let length = usize::try_from(length).unwrap_or_default();
    let first = fields.bytes(length).map_err(|error| malformed(&error))?;
    let (exchange, answer) = Exchange::start(verifier, first).map_err(|error| malformed(&error))?;
    output::authentication(&mut wire.out, 11, answer.as_bytes());
    wire.flush().await?;
    let last = password_message(wire).await?;
    let proved = exchange.finish(&last).map_err(|error| malformed(&error))?;
    match (proved, account) {
        (Some(answer), Some(account)) => {
            output::authentication(&mut wire.out, 12, answer.as_bytes());
            Ok(account)
        }
        _ => {
            tracing::warn!(target: "pushdowndb_server::login", user, %client, "wrong password");
            tokio::time::sleep(DELAY).await;
            let message = format!("password authentication failed for user \"{user}\"");
            Err(Refused::Told(PgError::fatal(code::INVALID_PASSWORD, message)))
        }
    }
}

async fn password_message(wire: &mut Wire) -> Result<Vec<u8>, Refused> {
    match wire.message().await? {
        (b'p', message) => Ok(message),
        _ => Err(Refused::Told(PgError::fatal(code::PROTOCOL, "a password was expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_parameters_and_options() {
        let parameters = [("user", "x"), ("application_name", "psql"), ("options", "-c a=1 --search-path=b -cd=2 -c")];
        let parameters: Vec<_> = parameters.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        let settings = given_settings(&parameters);
        let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(settings, [("application_name", "psql"), ("a", "1"), ("search_path", "b"), ("d", "2")]);
    }
}
