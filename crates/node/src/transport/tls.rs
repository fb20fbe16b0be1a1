//! TLS with a certificate that is read from files, and again on request.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::TlsFiles;

/// The current certificate.
pub(crate) struct Tls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Reads the files. Blocks.
    pub fn load(files: TlsFiles) -> Result<Self> {
        let acceptor = RwLock::new(acceptor(&files)?);
        Ok(Self { files, acceptor })
    }

    /// Reads the files again for new connections. An error keeps the old certificate. Blocks.
    pub fn reload(&self) -> Result<()> {
        let fresh = acceptor(&self.files)?;
        *self.acceptor.write() = fresh;
        Ok(())
    }

    /// The acceptor for a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let TlsFiles { certificate, key } = files;
    let cannot = |what: &str, path: &std::path::Path| {
        Error::invalid(format!("cannot use the {what} {}: it must hold PEM", path.display()))
    };
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
    // Like S3; HTTP/2 would need its own limits.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
