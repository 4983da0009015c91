//! The engine on a socket: Stripe's paths and the control paths, over HTTP/1.1. The only file that knows a web server.
//!
//! A cut is a true one: the socket is shut down under the server before it has written a byte of the answer.

use std::any::Any;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use actix_web::dev::{Extensions, Server};
use actix_web::http::StatusCode;
use actix_web::rt::net::TcpStream as ServerStream;
use actix_web::web::{self, Bytes, Data, PayloadConfig};
use actix_web::{App, Error, HttpRequest, HttpResponse, HttpServer};

use super::control;
use super::engine::MockStripe;
use super::message::{MockReply, MockRequest, MockResponse};

/// The largest request body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long an idle connection is kept: longer than clients keep theirs, so that no send meets a closing socket by
/// chance.
const KEEP_ALIVE: Duration = Duration::from_secs(120);
/// Seconds that a stopping server waits for calls in flight; hanging ones would otherwise hold it for an hour.
const SHUTDOWN_SECONDS: u64 = 1;

/// Serves the mock on a bound listener until the returned server is stopped or dropped.
///
/// Signals are left to the caller: without a handler of its own, Ctrl-C ends the process as usual.
pub fn serve(mock: MockStripe, listener: TcpListener) -> io::Result<Server> {
    let mock = Data::new(mock);
    let app = move || {
        App::new()
            .app_data(mock.clone())
            .app_data(PayloadConfig::new(BODY_BYTES_MAX))
            .default_service(web::to(dispatch))
    };
    let server = HttpServer::new(app)
        .on_connect(keep_scissors)
        .workers(2)
        .keep_alive(KEEP_ALIVE)
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .listen(listener)?;
    Ok(server.run())
}

/// A second handle to the connection's socket, with which it can be cut.
struct Scissors(TcpStream);

fn keep_scissors(connection: &dyn Any, data: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<ServerStream>() else {
        return;
    };
    match second_handle(stream) {
        Ok(handle) => _ = data.insert(Scissors(handle)),
        Err(error) => {
            tracing::warn!(%error, "a mock connection cannot be cut: its socket has no second handle")
        }
    }
}

#[cfg(unix)]
fn second_handle(stream: &ServerStream) -> io::Result<TcpStream> {
    use std::os::fd::AsFd as _;
    stream.as_fd().try_clone_to_owned().map(TcpStream::from)
}

#[cfg(windows)]
fn second_handle(stream: &ServerStream) -> io::Result<TcpStream> {
    use std::os::windows::io::AsSocket as _;
    stream.as_socket().try_clone_to_owned().map(TcpStream::from)
}

async fn dispatch(
    mock: Data<MockStripe>,
    http: HttpRequest,
    body: Result<Bytes, Error>,
) -> HttpResponse {
    let body = match body {
        Ok(body) => body.to_vec(),
        Err(error) => return error.error_response(),
    };
    let headers = http.headers().iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let request = MockRequest {
        method: http.method().as_str().to_owned(),
        path: http.uri().path().to_owned(),
        query: http.query_string().to_owned(),
        headers: headers.collect(),
        body,
    };
    if request.path.starts_with(control::PREFIX) {
        return answer(control::serve(&mock, &request));
    }
    match mock.handle(request).await {
        MockReply::Answer(response) => answer(response),
        MockReply::Cut => cut(&http),
    }
}

fn answer(response: MockResponse) -> HttpResponse {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponse::build(status);
    for header in response.headers {
        builder.insert_header(header);
    }
    builder.body(response.body)
}

/// Shuts the socket down. The answer returned here is never written: there is nowhere left to write it.
fn cut(http: &HttpRequest) -> HttpResponse {
    if let Some(Scissors(socket)) = http.conn_data::<Scissors>()
        && let Err(error) = socket.shutdown(Shutdown::Both)
    {
        // The caller was faster; the connection is gone either way.
        tracing::debug!(%error, "the mock connection was closed already");
    }
    HttpResponse::InternalServerError().force_close().finish()
}
