//! A URL that names several hosts: a primary and its standbys. Which of them can be written to is found out at each connect, so
//! that a failover needs no new URL.

use std::time::Duration;

use tokio_postgres::config::{Config, Host, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server, or the way to it.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// It accepted the connection, if that, and said nothing more.
    #[error("no answer in time")]
    Silent,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
type Connected = (Client, Connection<Socket, Stream>);

/// Connects to the only host, or to the first of several that can be written to.
///
/// The limit is for all of them together: a host that is frozen, or swallows every packet, leaves time for the next one. The
/// driver's own limit ends with the TCP connect, which a frozen host's kernel still answers.
pub async fn connect(
    config: &Config,
    tls: MakeRustlsConnect,
    limit: Duration,
) -> Result<Connected, ConnectError> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    if count < 2 {
        return Ok(config.connect(tls).await?);
    }
    // One share more than hosts, for what follows the connect.
    let share = limit / u32::try_from(count + 1).unwrap_or(u32::MAX);
    let mut outcome = Err(ConnectError::Silent);
    for place in 0..count {
        let mut host = only(config, place);
        host.target_session_attrs(TargetSessionAttrs::ReadWrite);
        outcome = match tokio::time::timeout(share, host.connect(tls.clone())).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(ConnectError::Silent),
        };
    }
    outcome
}

/// The same with one host of several.
fn only(all: &Config, place: usize) -> Config {
    let mut one = Config::new();
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    one.ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding())
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle());
    match all.get_hosts().get(place) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        #[cfg(unix)]
        Some(Host::Unix(path)) => {
            one.host_path(path);
        }
        None => {}
    }
    if let Some(address) = all.get_hostaddrs().get(place) {
        one.hostaddr(*address);
    }
    // One port is for all hosts.
    let ports = all.get_ports();
    if let Some(port) = ports.get(place).or(ports.first()) {
        one.port(*port);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_keeps_its_port_and_all_that_is_common() {
        let url = "postgres://me:secret@one:1,two:2/billing?sslmode=require&options=-cgeqo%3Doff";
        let all: Config = url.parse().unwrap();
        for (place, name, port) in [(0, "one", 1), (1, "two", 2)] {
            let host = only(&all, place);
            assert_eq!(host.get_hosts(), [Host::Tcp(name.into())]);
            assert_eq!(host.get_ports(), [port]);
            assert_eq!(host.get_user(), Some("me"));
            assert_eq!(host.get_password(), Some(&b"secret"[..]));
            assert_eq!(host.get_dbname(), Some("billing"));
            assert_eq!(host.get_options(), Some("-cgeqo=off"));
            assert_eq!(host.get_ssl_mode(), all.get_ssl_mode());
        }
    }

    #[test]
    fn one_port_is_for_all_hosts() {
        let all: Config = "host=one,two port=7 user=me".parse().unwrap();
        assert_eq!(only(&all, 1).get_ports(), [7]);
    }
}
