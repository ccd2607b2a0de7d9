# oribi:ruby serves apps in Ruby (Rack). The context of the build is the checkout, with packages in dist/debian12; see
# docs/containers.md.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM $BASE
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,source=dist/debian12,target=/run/packages \
    --mount=type=bind,source=packages/images/install,target=/run/install \
    sh /run/install ruby
ARG VERSION
LABEL org.opencontainers.image.title="oribi" \
    org.opencontainers.image.description="Application server for apps in Ruby (Rack)" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.licenses="MIT OR Apache-2.0"
# All addresses of the container; --listen replaces it.
ENV PORT=8080 LANG=C.UTF-8
WORKDIR /srv
USER 10001:10001
EXPOSE 8080
# Finishes the running requests.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["oribi", "ctl", "health"]
ENTRYPOINT ["oribi"]
CMD ["."]
