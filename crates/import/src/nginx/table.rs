//! Directives that are options of the whole server, or have no counterpart.

use super::logs;
use super::syntax::Directive;
use crate::draft::Draft;
use crate::note::Key;

enum To {
    Server(&'static str),
    Same(&'static str),
    Lost(&'static str),
}

use To::{Lost, Same, Server};

const ALWAYS: &str = "Oribi does it, or has no need of it";
const PROXY: &str = "an app in Oribi sees the client, its scheme and its host without it";
const PASSED: &str =
    "an app that is another server gets requests as clients send them, and its responses are passed on as they are";
const TLS: &str = "an app passes requests on without TLS, to http://HOST:PORT";
const DEADLINES: &str = "request-timeout of the app bounds its time";
const BUFFERS: &str =
    "edges take requests and responses of slow clients into memory and files (body-buffer-size, output-spool-size)";
const COMPRESSION: &str = "compress of a route has codings, types, min-size, max-size and private";
const LEVELS: &str = "compress chooses the effort, and sends Vary";
const RATES: &str = "Oribi limits no bytes for each second";
const STATUS: &str = "a request over a limit gets a 429, and the log a line";
const CACHE: &str = "cache of a route stores responses, as their Cache-Control says";
const VARIABLES: &str = "there are no variables: write a route for each value";
const MODULE: &str = "Oribi has no such module";
const LIMITS: &str = "LimitNOFILE= and Nice= of a systemd unit set the limits of processes";

/// The number of media types of a file that has all.
const MANY_TYPES: usize = 40;

const TABLE: &[(&[&str], To)] = &[
    (&["pid"], Server("pid-file")),
    (&["worker_connections"], Server("max-connections")),
    (&["client_body_buffer_size"], Server("body-buffer-size")),
    (&["client_header_timeout"], Server("header-timeout")),
    (&["client_body_timeout"], Server("body-timeout")),
    (&["send_timeout"], Server("write-timeout")),
    (&["keepalive_requests"], Server("max-keepalive-requests")),
    (&["lingering_timeout", "lingering_time"], Server("linger-timeout")),
    (&["client_body_temp_path"], Server("temporary-directory")),
    (&["set_real_ip_from"], Server("trusted-proxies")),
    (&["ssl_client_certificate", "ssl_trusted_certificate"], Server("ssl-ca")),
    (&["ssl_stapling_file"], Server("ssl-ocsp")),
    (&["worker_shutdown_timeout"], Server("graceful-timeout")),
    (&["http2_max_concurrent_streams"], Server("http2-streams")),
    (
        &[
            "sendfile",
            "sendfile_max_chunk",
            "tcp_nopush",
            "tcp_nodelay",
            "aio",
            "aio_write",
            "directio",
            "output_buffers",
            "multi_accept",
            "accept_mutex",
            "accept_mutex_delay",
            "use",
            "epoll_events",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "types_hash_max_size",
            "types_hash_bucket_size",
            "map_hash_bucket_size",
            "map_hash_max_size",
            "variables_hash_max_size",
            "variables_hash_bucket_size",
            "server_tokens",
            "charset",
            "reset_timedout_connection",
            "open_file_cache",
            "open_file_cache_valid",
            "open_file_cache_min_uses",
            "open_file_cache_errors",
            "real_ip_recursive",
            "port_in_redirect",
            "absolute_redirect",
            "server_name_in_redirect",
            "log_not_found",
            "log_subrequest",
            "merge_slashes",
            "ignore_invalid_headers",
            "chunked_transfer_encoding",
            "etag",
            "if_modified_since",
            "max_ranges",
            "recursive_error_pages",
            "msie_padding",
            "client_header_buffer_size",
            "client_body_in_single_buffer",
            "client_body_in_file_only",
            "lingering_close",
            "daemon",
            "master_process",
            "worker_cpu_affinity",
            "timer_resolution",
            "pcre_jit",
            "lock_file",
            "thread_pool",
            "keepalive_disable",
            "keepalive_min_timeout",
            "preread_buffer_size",
            "http2_chunk_size",
            "http2_recv_buffer_size",
            "http2_max_field_size",
            "http2_max_header_size",
            "http2_body_preread_size",
            "gzip_static",
            "brotli_static",
            "request_pool_size",
            "connection_pool_size",
            "read_ahead",
            "postpone_output",
            "disable_symlinks",
        ],
        Same(ALWAYS),
    ),
    (
        &[
            "ssl_session_cache",
            "ssl_session_timeout",
            "ssl_session_tickets",
            "ssl_session_ticket_key",
            "ssl_prefer_server_ciphers",
            "ssl_dhparam",
            "ssl_ecdh_curve",
            "ssl_buffer_size",
            "ssl_early_data",
            "ssl_conf_command",
        ],
        Same("Oribi has safe settings of TLS, and sessions in tickets"),
    ),
    (
        &[
            "proxy_http_version",
            "proxy_pass_header",
            "proxy_ignore_headers",
            "proxy_headers_hash_max_size",
            "proxy_headers_hash_bucket_size",
            "proxy_socket_keepalive",
            "fastcgi_index",
            "fastcgi_split_path_info",
            "fastcgi_keep_conn",
            "fastcgi_pass_header",
            "uwsgi_modifier1",
        ],
        Same(PROXY),
    ),
    (
        &[
            "proxy_connect_timeout",
            "proxy_send_timeout",
            "proxy_next_upstream",
            "proxy_next_upstream_tries",
            "proxy_next_upstream_timeout",
            "fastcgi_read_timeout",
            "fastcgi_send_timeout",
            "fastcgi_connect_timeout",
            "uwsgi_read_timeout",
            "uwsgi_send_timeout",
            "uwsgi_connect_timeout",
            "scgi_read_timeout",
            "grpc_read_timeout",
        ],
        Lost(DEADLINES),
    ),
    (
        &[
            "proxy_buffering",
            "proxy_buffers",
            "proxy_buffer_size",
            "proxy_busy_buffers_size",
            "proxy_request_buffering",
            "proxy_temp_path",
            "proxy_max_temp_file_size",
            "proxy_temp_file_write_size",
            "fastcgi_buffering",
            "fastcgi_buffers",
            "fastcgi_buffer_size",
            "fastcgi_busy_buffers_size",
            "fastcgi_temp_path",
            "fastcgi_temp_file_write_size",
            "fastcgi_max_temp_file_size",
            "fastcgi_request_buffering",
            "uwsgi_buffering",
            "uwsgi_buffers",
            "uwsgi_buffer_size",
            "uwsgi_temp_path",
            "uwsgi_busy_buffers_size",
            "scgi_temp_path",
        ],
        Same(BUFFERS),
    ),
    (
        &[
            "gzip_vary",
            "gzip_comp_level",
            "gzip_buffers",
            "gzip_http_version",
            "brotli_comp_level",
            "brotli_buffers",
            "brotli_window",
            "zstd_comp_level",
        ],
        Same(LEVELS),
    ),
    (&["gzip_proxied", "gzip_disable", "gunzip"], Lost(COMPRESSION)),
    (&["limit_req_status", "limit_conn_status", "limit_req_log_level", "limit_conn_log_level"], Lost(STATUS)),
    (&["limit_rate", "limit_rate_after"], Lost(RATES)),
    (
        &[
            "proxy_redirect",
            "proxy_method",
            "proxy_pass_request_headers",
            "proxy_pass_request_body",
            "proxy_cookie_path",
            "proxy_cookie_domain",
            "proxy_cookie_flags",
            "proxy_set_body",
            "proxy_bind",
        ],
        Lost(PASSED),
    ),
    (&["proxy_ssl_server_name", "proxy_ssl_name", "proxy_ssl_verify", "proxy_ssl_trusted_certificate"], Lost(TLS)),
    (
        &[
            "proxy_cache",
            "proxy_cache_path",
            "proxy_cache_valid",
            "proxy_cache_key",
            "proxy_cache_bypass",
            "proxy_no_cache",
            "proxy_cache_use_stale",
            "proxy_cache_lock",
            "proxy_cache_methods",
            "proxy_cache_min_uses",
            "proxy_cache_revalidate",
            "proxy_cache_background_update",
            "fastcgi_cache",
            "fastcgi_cache_path",
            "fastcgi_cache_key",
            "fastcgi_cache_valid",
            "fastcgi_cache_bypass",
            "fastcgi_no_cache",
            "fastcgi_cache_use_stale",
        ],
        Lost(CACHE),
    ),
    (&["map", "geo", "split_clients", "set", "set_by_lua_block", "geoip_country", "geoip_city", "geoip2"], Lost(VARIABLES)),
    (
        &["proxy_intercept_errors", "fastcgi_intercept_errors"],
        Lost("error-pages of a route are for errors of Oribi itself, not for those of apps"),
    ),
    (&["add_trailer"], Lost("routes add no trailers: the app does")),
    (&["resolver", "resolver_timeout"], Lost("Oribi asks for no names while it serves")),
    (
        &[
            "load_module",
            "perl_modules",
            "perl_require",
            "js_import",
            "js_content",
            "js_path",
            "lua_package_path",
            "lua_shared_dict",
            "init_by_lua_block",
            "access_by_lua_block",
            "content_by_lua_block",
            "rewrite_by_lua_block",
            "header_filter_by_lua_block",
            "body_filter_by_lua_block",
            "log_by_lua_block",
            "modsecurity",
            "modsecurity_rules_file",
            "dav_methods",
            "mp4",
            "flv",
            "image_filter",
            "sub_filter",
            "sub_filter_once",
            "sub_filter_types",
            "ssi",
            "addition_types",
            "secure_link",
            "valid_referers",
            "mirror",
            "grpc_pass",
            "memcached_pass",
            "random_index",
            "perl",
            "empty_gif",
            "pagespeed",
            "push_stream_publisher",
            "rtmp",
        ],
        Lost(MODULE),
    ),
    (
        &["autoindex", "autoindex_exact_size", "autoindex_localtime", "autoindex_format"],
        Lost("listing = true in files of a route lists directories"),
    ),
    (
        &["stub_status", "status", "vhost_traffic_status_display", "vhost_traffic_status_zone"],
        Lost("metrics and dashboard in [server]"),
    ),
    (
        &[
            "worker_rlimit_nofile",
            "worker_priority",
            "worker_rlimit_core",
            "working_directory",
            "env",
            "worker_aio_requests",
            "debug_connection",
        ],
        Lost(LIMITS),
    ),
    (&["ssl_stapling", "ssl_stapling_verify", "ssl_stapling_responder"], Lost("ssl-ocsp names a file with the response")),
    (&["ssl_crl"], Lost("Oribi does not know revoked certificates of clients: a proxy in front does")),
    (&["ssl_verify_depth", "ssl_password_file", "ssl_reject_handshake"], Lost("no such option of TLS")),
    (&["underscores_in_headers"], Server("underscore-headers")),
    (&["http3", "http3_hq", "quic_retry", "quic_gso", "ssl_quic"], Lost("Oribi speaks HTTP/1.1 and HTTP/2")),
    (&["rewrite_log", "uninitialized_variable_warn"], Lost(VARIABLES)),
];

/// Reads a directive.
pub(super) fn read(directive: &Directive, key: &Key, draft: &mut Draft) {
    let word = directive.word(0);
    match directive.name.as_str() {
        "user" => {
            draft.server.set("user", word, key);
            if directive.words.len() > 1 {
                draft.server.set("group", directive.word(1), key);
            }
        }
        "worker_processes" if word == "auto" => {
            draft.same(key, "one edge is enough for most; edges in [server] sets the number");
        }
        "worker_processes" => draft.server.set("edges", word, key),
        "client_max_body_size" => draft.server.set("max-body-size", if word == "0" { "off" } else { word }, key),
        "keepalive_timeout" => {
            draft.server.set("keepalive-timeout", word, key);
            if directive.words.len() > 1 {
                draft.lost(key, format!("no field Keep-Alive tells clients of the time {}", directive.word(1)));
            }
        }
        "http2" => draft.server.set("http2", word, key),
        "large_client_header_buffers" => draft.server.set("max-header-size", directive.word(1), key),
        "error_log" => logs::errors(directive, key, draft),
        "access_log" => logs::requests(directive, key, draft),
        "log_format" => draft.lost(key, "access-log-format: common, combined, json, or a pattern as in Apache's LogFormat"),
        "real_ip_header" => match word.to_ascii_lowercase().as_str() {
            "proxy_protocol" => draft.server.set("proxy-protocol", "on", key),
            field @ ("x-forwarded-for" | "forwarded") => draft.server.set("forwarded-fields", field, key),
            _ => draft.lost(key, "the proxy in front has to send X-Forwarded-For"),
        },
        "ssl_protocols" => {
            let old = directive.words.iter().any(|word| word == "TLSv1.2");
            draft.server.set("tls-min-version", if old { "1.2" } else { "1.3" }, key);
            if directive.words.iter().any(|word| !["TLSv1.2", "TLSv1.3"].contains(&&**word)) {
                draft.lost(key, "Oribi speaks TLS 1.2 and 1.3");
            }
        }
        "ssl_ciphers" => draft.lost(key, "ssl-ciphers takes names of suites; by default all that are safe are accepted"),
        "ssl_verify_client" => match word {
            "on" => draft.server.set("ssl-verify-client", "required", key),
            "optional" => draft.server.set("ssl-verify-client", "optional", key),
            "off" => draft.same(key, "the default of Oribi"),
            _ => draft.lost(key, "ssl-verify-client: none, optional or required"),
        },
        "ssl_certificate" | "ssl_certificate_key" => {
            let option = if directive.name == "ssl_certificate" { "ssl-cert" } else { "ssl-key" };
            draft.server.set(option, word, key);
        }
        "types" if directive.inside().len() > MANY_TYPES => draft.same(key, "these media types are built in"),
        "types" => {
            for directive in directive.inside() {
                for ending in &directive.words {
                    draft.server.set("media-type", format!(".{ending}={}", directive.name), key);
                }
            }
        }
        "include" if word.ends_with("mime.types") || word.ends_with("_params") || word.ends_with("fastcgi.conf") => {
            draft.same(key, "media types and variables of apps are built in");
        }
        "include" => draft.lost(key, format!("the file {word} is not read: import the output of nginx -T")),
        name => match TABLE.iter().find(|(names, _)| names.contains(&name)) {
            Some((_, Server(option))) => draft.server.set(option, word, key),
            Some((_, Same(reason))) => draft.same(key, *reason),
            Some((_, Lost(reason))) if word == "off" && directive.words.len() == 1 => {
                draft.same(key, format!("it is off ({reason})"));
            }
            Some((_, Lost(reason))) => draft.lost(key, *reason),
            None => draft.lost(key, "no counterpart, or not known"),
        },
    }
}
