//! What a replay costs at least: a bare actix-web handler that answers a charge's bytes and knows nothing else. To measure against;
//! see `docs/performance.md`.
//!
//! `PORT=8080 cargo run --release --example bare_handler`
#![expect(
    clippy::print_stdout,
    reason = "says where it listens, as programs at a terminal do"
)]

use actix_web::{App, HttpResponse, HttpServer, web};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    invoice_id: String,
}

/// As long as a real answer, and with the same headers.
async fn charge(call: web::Json<Call>) -> HttpResponse {
    let invoice = &call.invoice_id;
    let body = format!(
        r#"{{"id":"chg_{invoice}","invoiceId":"{invoice}","attempt":1,"status":"succeeded","amountCents":1999,"currency":"usd","customerId":"cus_bench1","paymentMethodId":null,"idempotencyKey":"charge:{invoice}","provider":"mock","providerPaymentId":"pi_0123456789abcdefghijklmn","failure":null,"customerCharged":"yes","retry":"not_needed","message":"The customer was charged 19.99 USD for this invoice, once. Nothing is left to do.","createdAt":"2026-11-30T00:00:00.000Z","settledAt":"2026-11-30T00:00:00.000Z"}}"#
    );
    HttpResponse::Created()
        .insert_header(("content-type", "application/json"))
        .insert_header(("location", format!("/v1/charges/chg_{invoice}")))
        .insert_header(("idempotent-replayed", "true"))
        .insert_header(("x-request-id", "req_0123456789abcdef0123456789abcdef"))
        .insert_header(("cache-control", "no-store"))
        .body(body)
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::var("PORT")
        .ok()
        .and_then(|port| port.parse().ok());
    let server = HttpServer::new(|| App::new().route("/v1/charges", web::post().to(charge)))
        .bind(("127.0.0.1", port.unwrap_or(8080)))?;
    println!("http://{}", server.addrs()[0]);
    server.run().await
}
