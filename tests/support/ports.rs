//! Ports for processes that have to be told theirs.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use tokio::net::TcpSocket;

/// A port that nobody listens at, that no other test of this binary was given, and that is below the range from which the system
/// serves whoever asks for any: it is still free when a process that takes its time listens there, and when one that was killed is
/// started again.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = rand::random_range(10_000..20_000);
        if GIVEN.lock().unwrap().insert(port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// An address at which nobody can be reached, as long as the socket is there: bound and not listening, so that nobody else is given its port.
pub fn closed() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}
