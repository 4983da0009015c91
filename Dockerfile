# syntax=docker/dockerfile:1
# The service in a small image that runs as nobody in particular. Build it with `docker build -t chargeonce .`

FROM rust:1.95-slim-bookworm AS build
# The bundled SQLite and ring are compiled from C.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /build
# The dependencies, apart from the sources: they are built again only when the lock file changes. The benchmark is named in
# Cargo.toml, so a file must be there; it is never built here.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src benches && echo 'fn main() {}' | tee src/main.rs > benches/charging.rs && touch src/lib.rs \
    && cargo build --release --locked \
    && rm -rf src target/release/chargeonce target/release/deps/chargeonce-* target/release/deps/libchargeonce-* \
        target/release/.fingerprint/chargeonce-*
COPY migrations migrations
COPY src src
RUN cargo build --release --locked

FROM debian:bookworm-slim
# The certificate authorities, for TLS to the payment provider and to PostgreSQL.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 chargeonce \
    && useradd --uid 10001 --gid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin chargeonce
COPY --from=build /build/target/release/chargeonce /usr/local/bin/chargeonce
USER 10001:10001
WORKDIR /data
# Without DATABASE_URL the embedded database is a file in this folder: give it a volume.
VOLUME /data
EXPOSE 3000
# In a container the service is reached from outside it, so it listens on all its addresses and asks for API keys
# (ADMIN_API_KEYS, AGENT_API_KEYS); without them it does not start.
ENV HOST=0.0.0.0 PORT=3000 LOG_FORMAT=json
# SIGTERM drains the running charges: give it SHUTDOWN_GRACE (90s) and a little more before it is killed.
STOPSIGNAL SIGTERM
ENTRYPOINT ["chargeonce"]
CMD ["serve"]
