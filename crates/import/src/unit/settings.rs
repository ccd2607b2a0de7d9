//! `settings` and `access_log`.

use super::log_format;
use crate::draft::Draft;
use crate::note::Key;
use crate::tree::Node;

/// The combined format of Apache, as Unit writes it.
const COMBINED: &str =
    "$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent \"$header_referer\" \"$header_user_agent\"";

pub(super) fn read(settings: &Node, draft: &mut Draft) {
    let key = Key::new("settings");
    if let Some(number) = settings.get("listen_threads").and_then(Node::number) {
        draft.server.set("edges", number, &key.inside("listen_threads"));
    }
    if let Some(node) = settings.get("js_module") {
        node.skip();
        draft.lost(&key.inside("js_module"), "Oribi runs no JavaScript");
    }
    if let Some(node) = settings.get("telemetry") {
        telemetry(node, draft, &key.inside("telemetry"));
    }
    let Some(http) = settings.get("http") else { return };
    let key = key.inside("http");
    for (name, option) in [
        ("header_read_timeout", "header-timeout"),
        ("body_read_timeout", "body-timeout"),
        ("send_timeout", "write-timeout"),
        ("idle_timeout", "keepalive-timeout"),
        ("max_body_size", "max-body-size"),
        ("body_buffer_size", "body-buffer-size"),
    ] {
        if let Some(number) = http.get(name).and_then(Node::number) {
            draft.server.set(option, number, &key.inside(name));
        }
    }
    if let Some(directory) = http.get("body_temp_path").and_then(Node::text) {
        draft.server.set("temporary-directory", directory, &key.inside("body_temp_path"));
    }
    let inside = key.inside("discard_unsafe_fields");
    match http.get("discard_unsafe_fields").and_then(Node::boolean) {
        Some(false) => {
            draft.server.set("underscore-headers", true, &inside);
            let text = "underscore-headers passes on fields with underscores; apps get those with other odd characters, such as \
                 !Name, in any case";
            draft.lost(&inside, text);
        }
        Some(true) => {
            let text = "Oribi drops fields with underscores; apps get those with other odd characters, such as !Name";
            draft.lost(&inside, text);
        }
        None => {}
    }
    let inside = key.inside("server_version");
    if http.get("server_version").and_then(Node::boolean).is_some() {
        draft.same(&inside, "Oribi sends its name without a version; server-header sets it");
    }
    let inside = key.inside("log_route");
    match http.get("log_route").and_then(Node::boolean) {
        Some(true) => draft.lost(&inside, "Oribi does not log the chosen routes; metrics-route counts requests by path"),
        Some(false) => draft.same(&inside, "Oribi does not log the chosen routes"),
        None => {}
    }
    if let Some(node) = http.get("chunked_transform").and_then(Node::boolean) {
        let text = "Oribi always passes chunked content on to apps";
        if node {
            draft.same(&key.inside("chunked_transform"), text);
        } else {
            draft.lost(&key.inside("chunked_transform"), text);
        }
    }
    if let Some(node) = http.get("websocket") {
        node.skip();
        let text = "an app takes the connection itself (psgix.io, rack.hijack); these limits are then its own";
        draft.lost(&key.inside("websocket"), text);
    }
    if let Some(node) = http.get("static").and_then(|node| node.get("mime_types")) {
        let key = key.inside("static.mime_types");
        for (media_type, names) in node.entries() {
            for name in names.values().iter().filter_map(Node::text) {
                draft.server.set("media-type", format!("{name}={media_type}"), &key.inside(media_type));
            }
        }
    }
}

fn telemetry(node: &Node, draft: &mut Draft, key: &Key) {
    if let Some(endpoint) = node.get("endpoint").and_then(Node::text) {
        draft.server.set("traces", true, key);
        draft.server.set("trace-export", endpoint, &key.inside("endpoint"));
    }
    if let Some(ratio) = node.get("sampling_ratio").and_then(Node::scalar) {
        draft.server.set("trace-sample", ratio, &key.inside("sampling_ratio"));
    }
    if let Some(protocol) = node.get("protocol").and_then(Node::text) {
        match protocol {
            "http" | "HTTP" => draft.same(&key.inside("protocol"), "trace-export speaks OTLP over HTTP"),
            _ => draft.lost(&key.inside("protocol"), "trace-export speaks OTLP over HTTP only"),
        }
    }
    if let Some(node) = node.get("batch_size") {
        node.skip();
        draft.lost(&key.inside("batch_size"), "the exporter chooses the size of its batches");
    }
}

pub(super) fn access_log(log: &Node, draft: &mut Draft) {
    let key = Key::new("access_log");
    if let Some(path) = log.text() {
        draft.server.set("access-log", path, &key);
        return;
    }
    if let Some(path) = log.get("path").and_then(Node::text) {
        draft.server.set("access-log", path, &key.inside("path"));
    }
    if let Some(node) = log.get("if") {
        node.skip();
        draft.lost(&key.inside("if"), "the access log has all requests; slow logs those that take long");
    }
    let inside = key.inside("format");
    let Some(format) = log.get("format") else { return };
    match format.text() {
        Some(COMBINED) => draft.server.set("access-log-format", "combined", &inside),
        Some(text) => {
            let (pattern, differences) = log_format::pattern(text);
            draft.server.set("access-log-format", pattern, &inside);
            differences.into_iter().for_each(|text| draft.lost(&inside, text));
        }
        None => {
            format.skip();
            draft.server.set("access-log-format", "json", &inside);
            draft.lost(&inside, "access-log-format = \"json\" has keys of its own");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Kind;

    #[test]
    fn fields_that_are_not_discarded_are_noted() {
        let settings = serde_json::from_str(r#"{"http": {"discard_unsafe_fields": true}}"#).expect("JSON");
        let mut draft = Draft::default();
        read(&settings, &mut draft);
        let kinds: Vec<_> = draft.notes.iter().map(|note| note.kind).collect();
        assert_eq!(kinds, [Kind::Lost], "{:?}", draft.notes);
    }
}
