# syntax=docker/dockerfile:1

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
# The caches are not part of the image, so the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --package garth-cli --bin garth \
    && install -m 0755 target/dist/garth /garth

FROM debian:trixie-slim
RUN groupadd --system --gid 10001 garth \
    && useradd --system --no-log-init --uid 10001 --gid garth --home-dir /data --no-create-home \
       --shell /usr/sbin/nologin garth \
    && install -d -o garth -g garth -m 0700 /data
COPY --from=build /garth /usr/local/bin/garth
# In production, metrics are off until ENABLE_METRICS=true and METRICS_TOKEN are set.
ENV GARTH_DATA=/data \
    GARTH_ENV=production \
    GARTH_LISTEN=0.0.0.0:8787 \
    GARTH_LOG_FORMAT=json
VOLUME ["/data"]
EXPOSE 8787
# By number, so that a cluster can see that it is not root.
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s --retries=3 CMD ["garth", "health"]
ENTRYPOINT ["garth"]
CMD ["serve"]
