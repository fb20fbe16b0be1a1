//! The sessions of clients, by the tokens that they got for their passwords.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use rand::RngCore;
use ring::digest;
use tonic::metadata::MetadataMap;

use super::CATALOG;
use super::connection::Connection;
use super::session::FlightSession;
use crate::error::{PgError, code};
use crate::session::SessionCore;
use crate::shared::Server;
use crate::users::Account;
use crate::users::scram::Verifier;
use crate::variables::SharedVariables;

/// Delay of the response to a wrong password.
const DELAY: Duration = Duration::from_millis(500);

/// How long a session lasts without calls.
const IDLE: Duration = Duration::from_secs(3600);

/// How long a session must be unused before it can be ended to make room for another.
const SPARE: Duration = Duration::from_secs(60);

/// The bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The base64 variant of passwords in headers. Clients written in Go leave the padding out.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum bytes of a user's name.
const MAX_NAME_BYTES: usize = 63;

/// The user name for clients that give none, if no passwords are required.
const ANYONE: &str = "anyone";

/// All sessions of the protocol.
pub(super) struct FlightSessions {
    server: Arc<Server>,
    by_token: Mutex<HashMap<String, Arc<FlightSession>>>,
}

impl FlightSessions {
    /// Creates an empty list of sessions.
    pub fn new(server: Arc<Server>) -> Self {
        Self { server, by_token: Mutex::default() }
    }

    /// Returns the session of a call: the one of its bearer token or, without a token, the one of
    /// its connection, which the first call opens with the user and password in `headers`.
    ///
    /// # Errors
    ///
    /// The token or the password is wrong or missing, or the session has ended.
    pub async fn of_call(
        &self,
        headers: &MetadataMap,
        connection: &Arc<Connection>,
    ) -> Result<Arc<FlightSession>, PgError> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let session = match given.and_then(|value| value.split_once(' ')) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => self.of_token(token),
            _ => Some(self.of_connection(given, headers, connection).await?),
        };
        let session = session.filter(|session| !session.core.entry.is_terminated());
        let session = session.ok_or_else(|| {
            PgError::new(code::INVALID_AUTHORIZATION, "the session has ended, or never was: connect again")
        })?;
        connection.authenticated();
        session.is_used();
        Ok(session)
    }

    fn of_token(&self, token: &str) -> Option<Arc<FlightSession>> {
        self.by_token.lock().get(token).cloned()
    }

    /// Returns the session for calls without a token, which ends with its connection. Opens one if
    /// there is none for the credentials `given`.
    async fn of_connection(
        &self,
        given: Option<&str>,
        headers: &MetadataMap,
        connection: &Arc<Connection>,
    ) -> Result<Arc<FlightSession>, PgError> {
        // Keeps a digest instead of the password.
        let digest = given.map(|given| digest::digest(&digest::SHA256, given.as_bytes()).as_ref().to_vec());
        let mut own = connection.own.lock().await;
        if let Some((known, session)) = &*own
            && *known == digest
            && !session.core.entry.is_terminated()
        {
            return Ok(Arc::clone(session));
        }
        let session = self.login(given, headers, connection).await?;
        *own = Some((digest, Arc::clone(&session)));
        Ok(session)
    }

    /// Opens a session with the user and password in `headers`, and returns its token.
    ///
    /// # Errors
    ///
    /// The password is wrong, or there are too many sessions.
    pub async fn handshake(&self, headers: &MetadataMap, connection: &Arc<Connection>) -> Result<String, PgError> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let session = self.login(given, headers, connection).await?;
        let mut token = [0; TOKEN_BYTES];
        rand::rng().fill_bytes(&mut token);
        let token = URL_SAFE_NO_PAD.encode(token);
        self.sweep();
        let mut by_token = self.by_token.lock();
        if by_token.len() >= self.server.limits.connections {
            let oldest = by_token.iter().max_by_key(|(_, session)| session.idle());
            let oldest = oldest.filter(|(_, session)| session.idle() >= SPARE).map(|(token, _)| token.clone());
            let Some(oldest) = oldest else {
                let message = "there are too many sessions already: close some";
                return Err(PgError::new(code::TOO_MANY_CONNECTIONS, message));
            };
            by_token.remove(&oldest);
        }
        by_token.insert(token.clone(), session);
        connection.authenticated();
        Ok(token)
    }

    /// Ends a session and invalidates its token.
    pub fn close(&self, session: &Arc<FlightSession>) {
        session.core.entry.terminate();
        self.by_token.lock().retain(|_, other| !Arc::ptr_eq(other, session));
    }

    /// Ends sessions without a call in the last hour, and removes those that have ended.
    pub fn sweep(&self) {
        self.by_token.lock().retain(|_, session| !session.core.entry.is_terminated() && session.idle() < IDLE);
    }

    /// Opens a session for the user and password in the `authorization` header `given`, `Basic …`.
    async fn login(
        &self,
        given: Option<&str>,
        headers: &MetadataMap,
        connection: &Connection,
    ) -> Result<Arc<FlightSession>, PgError> {
        let basic = given.and_then(|given| given.split_once(' '));
        let basic = basic.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
        let decoded = basic.and_then(|(_, pair)| String::from_utf8(BASIC.decode(pair.trim()).ok()?).ok());
        let pair = decoded.as_deref().and_then(|pair| pair.split_once(':'));
        let users = self.server.users.get();
        let account = match (users.have_passwords(), pair) {
            (true, None) => {
                let message = "this server asks for a user and a password";
                return Err(PgError::new(code::INVALID_AUTHORIZATION, message));
            }
            (true, Some((user, password))) => self.authenticated(user, password, connection).await?,
            (false, _) => users.find(ANYONE).ok_or_else(|| PgError::new("XX000", "there is no user"))?,
        };
        let user = pair.map(|(user, _)| user).filter(|user| !user.is_empty()).unwrap_or(ANYONE);
        if user.len() > MAX_NAME_BYTES {
            let message = format!("a user's name has at most {MAX_NAME_BYTES} bytes");
            return Err(PgError::new(code::INVALID_AUTHORIZATION, message));
        }
        let application = headers.get("user-agent").and_then(|value| value.to_str().ok()).unwrap_or("Flight SQL");
        let variables = SharedVariables::default();
        variables.set("application_name", application)?;
        let engine = account.session(&self.server.engine).await.map_err(|error| PgError::from(&error))?;
        let listed = self.server.sessions.add(user.into(), CATALOG.into(), application.into(), connection.client);
        let core = SessionCore::new(Arc::clone(&self.server), Arc::clone(&listed.entry), account, engine, variables);
        Ok(Arc::new(FlightSession::new(core, listed)))
    }

    /// Returns the account of a user if the password is right.
    async fn authenticated(
        &self,
        user: &str,
        password: &str,
        connection: &Connection,
    ) -> Result<Arc<Account>, PgError> {
        let account = self.server.users.get().find(user);
        // For an unknown user, the check takes as long and fails for every password.
        let verifier = account.as_ref().and_then(|account| account.user.verifier.clone());
        let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(user, &self.server.secret));
        let password = password.to_owned();
        let is_right = tokio::task::spawn_blocking(move || verifier.is(&password)).await.unwrap_or(false);
        match account.filter(|_| is_right) {
            Some(account) => Ok(account),
            None => {
                let client = connection.client;
                tracing::warn!(target: "pushdowndb_server::login", user, %client, "wrong password");
                self.server.counters.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(DELAY).await;
                let message = format!("password authentication failed for user \"{user}\"");
                Err(PgError::new(code::INVALID_PASSWORD, message))
            }
        }
    }
}
