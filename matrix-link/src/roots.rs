//! Which certificates are trusted where there is no system to ask.
//!
//! Elsewhere the system's own verifier decides, which also knows the operator's authorities. On Android that verifier lives
//! in a Java machine, which a program of a terminal has not, and it panics without one.

use matrix_sdk::{
    ClientBuildError, ClientBuilder, HttpError,
    reqwest::{Certificate, Client, Error, tls::Version},
};

/// What every client of the SDK begins with.
pub(crate) fn builder() -> Result<ClientBuilder, Box<ClientBuildError>> {
    let builder = matrix_sdk::Client::builder();
    if !cfg!(target_os = "android") {
        return Ok(builder);
    }
    let bundled = bundled().map_err(|error| ClientBuildError::Http(HttpError::Reqwest(error)))?;
    Ok(builder.http_client(bundled))
}

/// What a client of the SDK begins with that asks nobody but this process: it needs no certificates, whose list takes time to
/// read and memory for each client.
pub(crate) fn loopback() -> Result<ClientBuilder, Box<ClientBuildError>> {
    let client = Client::builder().no_proxy().tls_certs_only([]).build();
    let client = client.map_err(|error| ClientBuildError::Http(HttpError::Reqwest(error)))?;
    Ok(matrix_sdk::Client::builder().http_client(client))
}

/// An HTTP client that trusts Mozilla's list of authorities, which is compiled in.
fn bundled() -> Result<Client, Error> {
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| Certificate::from_der(der));
    Client::builder()
        .user_agent("waybread")
        .min_tls_version(Version::TLS_1_2)
        .tls_certs_only(roots.collect::<Result<Vec<_>, _>>()?)
        .build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn a_client_with_the_compiled_in_list_works_without_the_systems() {
        assert!(webpki_root_certs::TLS_SERVER_ROOT_CERTS.len() > 50);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let client = bundled().unwrap();
        let (asked, greeted) = tokio::join!(client.get(&url).send(), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap()
        });
        // It has begun a handshake (record type 22), and found no server behind it.
        assert_eq!(greeted, 22);
        assert!(asked.unwrap_err().is_connect());
    }
}
