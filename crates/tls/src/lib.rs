//! TLS for the storage node and the SQL server, with a certificate that is read from files and can
//! be reloaded.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The current certificate of a server.
pub struct Tls {
    files: TlsFiles,
    /// The protocols that the server offers by ALPN.
    protocols: &'static [&'static [u8]],
    acceptor: RwLock<TlsAcceptor>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files. The server offers `protocols` by ALPN, or does not use ALPN if they are
    /// empty. Blocks.
    pub fn load(files: TlsFiles, protocols: &'static [&'static [u8]]) -> Result<Self> {
        let acceptor = RwLock::new(acceptor(&files, protocols)?);
        Ok(Self { files, protocols, acceptor })
    }

    /// Reloads the files, for new connections. An error keeps the old certificate. Blocks.
    pub fn reload(&self) -> Result<()> {
        let fresh = acceptor(&self.files, self.protocols)?;
        *self.acceptor.write() = fresh;
        Ok(())
    }

    /// The acceptor for a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }
}

fn acceptor(files: &TlsFiles, protocols: &[&[u8]]) -> Result<TlsAcceptor> {
    let TlsFiles { certificate, key } = files;
    let cannot =
        |what: &str, path: &Path| Error::invalid(format!("cannot use the {what} {}: it must hold PEM", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| cannot("certificate", certificate).with_source(io::Error::other(error)))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| cannot("private key", key).with_source(io::Error::other(error)))?;
    // Versions 1.2 and 1.3 with the safe defaults of rustls.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| cannot("certificate", certificate).with_source(error))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
