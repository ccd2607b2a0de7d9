//! The JSON schema of `oribi.toml`, for editors.

use crate::conditions;
use crate::language_options::{LANGUAGE_OPTIONS, LanguageOption, ValueForm};
use crate::options::{Table, settings_in};
use crate::route::{ACTIONS, REDIRECTS};
use oribi_config::{Setting, table};
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12) of `oribi.toml`, made from the table of options. It has the names of options as the table
/// writes them: the reader also takes `_` for `-`, and capitals. It says nothing about the texts of values.
#[must_use]
pub fn schema() -> String {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "oribi.toml",
        "description": "The configuration of a server with several apps",
        "$defs": { "option": options(), "text": scalar(), "patterns": patterns(), "named": named() },
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "include": {
                "description": "Other files, relative to this one; each may hold [app.NAME] and [[route]] only",
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            },
            "server": object(&options_in(Table::Server), &[], "Options of the whole server, and defaults of all apps"),
            "listen": { "type": "array", "items": listen() },
            "app": {
                "type": "object",
                "additionalProperties": false,
                "patternProperties": { "^[A-Za-z0-9._-]{1,64}$": app() },
            },
            "defaults": {
                "type": "object",
                "description": "Filters of all routes that have none of the same name",
                "additionalProperties": false,
                "properties": filters(),
            },
            "route": { "type": "array", "items": route() },
        },
    });
    format!("{schema:#}\n")
}

/// The definitions of all options.
fn options() -> Value {
    let definition = |setting: &Setting| {
        let one = match setting.placeholder {
            "" => json!(["boolean", "string"]),
            "NUMBER" | "COUNT" | "PORT" | "MODE" => json!(["integer", "string"]),
            _ => json!(["string", "number", "boolean"]),
        };
        let one = json!({ "type": one });
        let several = setting.repeats() || setting.separator.is_some();
        let mut definition = match several {
            true => json!({ "anyOf": [one, { "type": "array", "items": one }] }),
            false => one,
        };
        let default = setting.default_text().filter(|text| !text.is_empty());
        let default = default.map_or_else(String::new, |text| format!(" (default: {text})"));
        definition["description"] = json!(format!("{}{default}", setting.help));
        (setting.name.to_owned(), definition)
    };
    Value::Object(table().iter().map(definition).collect())
}

/// The options that may stand in a table, by all of their names.
fn options_in(wanted: Table<'_>) -> Map<String, Value> {
    let properties = |setting: &'static Setting| {
        let names = [setting.name].into_iter().chain(setting.aliases.iter().copied());
        let names = names.chain(setting.opposites.iter().copied());
        names.map(move |name| (name.to_owned(), json!({ "$ref": format!("#/$defs/option/{}", setting.name) })))
    };
    settings_in(wanted).flat_map(properties).collect()
}

fn listen() -> Value {
    let mut properties = options_in(Table::Listen);
    properties.insert("address".to_owned(), json!({ "type": "string", "description": "An address as --listen takes it" }));
    object(&properties, &["address"], "An address, with the options that are a part of it")
}

fn app() -> Value {
    let mut properties = options_in(Table::App(""));
    for (name, description) in [
        ("file", "The file of the app, relative to this file"),
        ("language", "Its language"),
        ("directory", "Its working directory, relative to this file"),
    ] {
        properties.insert(name.to_owned(), json!({ "type": "string", "description": description }));
    }
    for LanguageOption { name, form, .. } in LANGUAGE_OPTIONS {
        let text = json!({ "type": "string" });
        let value = match form {
            ValueForm::Text => json!({ "type": ["string", "number", "boolean"] }),
            ValueForm::Switch => json!({ "type": "boolean" }),
            ValueForm::Path | ValueForm::Program => text,
            ValueForm::Texts | ValueForm::Paths => json!({ "anyOf": [text, { "type": "array", "items": text }] }),
        };
        properties.insert((*name).to_owned(), value);
    }
    let variables = json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/text" } });
    properties.insert("environment".to_owned(), variables);
    let url = json!({ "type": "string", "pattern": "^http(://|\\+unix:)" });
    let upstreams = "Other servers that answer in place of an app: http://HOST:PORT or http+unix:/PATH";
    let several = json!({ "type": "array", "items": url, "minItems": 1 });
    properties.insert("proxy".to_owned(), json!({ "description": upstreams, "anyOf": [url, several] }));
    let mut app = object(&properties, &[], "An app, with its options");
    app["oneOf"] = json!([{ "required": ["file"] }, { "required": ["proxy"] }]);
    app
}

fn route() -> Value {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "anyOf": [text(), { "type": "array", "items": text(), "minItems": 1 }] });
    let fallback = json!({ "anyOf": [text(), { "type": "object", "minProperties": 1, "maxProperties": 1 }] });
    let index = json!({ "$ref": "#/$defs/option/index" });
    let status = json!({ "type": "integer", "minimum": 200, "maximum": 599 });
    let files = json!({
        "root": text(),
        "try": texts(),
        "fallback": fallback,
        "index": index,
        "listing": { "type": "boolean" },
        "types": texts(),
    });
    let mut actions: Vec<Value> = ACTIONS.iter().map(|action| json!({ "required": [action] })).collect();
    let any = json!({ "anyOf": actions });
    // A route that only changes the path.
    actions.push(json!({ "required": ["rewrite", "match"], "not": any }));
    let mut route = json!({
        "type": "object",
        "description": "Routes are tried in order; the first one whose conditions a request meets answers it",
        "additionalProperties": false,
        "properties": {
            "name": text(),
            "match": closed(&conditions(), &[]),
            "app": text(),
            "mount": { "type": "string", "pattern": "^/.*[^/]$" },
            "rewrite": {
                "description": "The new path, which may have variables such as $uri; without an action the routes decide again",
                "type": "string",
                "pattern": "^[/$]",
            },
            "files": described("Files below a directory", closed(&files, &["root"])),
            "redirect": closed(&json!({ "to": text(), "status": { "enum": REDIRECTS } }), &["to"]),
            "respond": closed(&json!({ "status": status, "content": text(), "type": text() }), &[]),
        },
        "oneOf": actions,
        "dependentRequired": { "mount": ["app"] },
    });
    if let (Value::Object(filters), Value::Object(properties)) = (filters(), &mut route["properties"]) {
        properties.extend(filters);
    }
    route
}

/// The properties that are filters.
fn filters() -> Value {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "anyOf": [text(), { "type": "array", "items": text() }] });
    let fields = || json!({ "type": "object", "additionalProperties": text() });
    let changes = || json!({ "set": fields(), "add": fields(), "remove": texts() });
    let mut of_responses = changes();
    of_responses["unless-error"] = closed(&changes(), &[]);
    let cors = json!({
        "origins": texts(),
        "methods": texts(),
        "fields": texts(),
        "expose": texts(),
        "credentials": { "type": "boolean" },
        "max-age": { "$ref": "#/$defs/text" },
    });
    let number = || json!({ "type": "integer", "minimum": 1 });
    let limit = closed(
        &json!({
            "requests": number(),
            "per": { "$ref": "#/$defs/text" },
            "burst": number(),
            "open": number(),
            "queue": { "$ref": "#/$defs/text" },
            "by": { "enum": ["client", "all"] },
            "field": text(),
            "dry-run": { "type": "boolean" },
        }),
        &[],
    );
    let ask = json!({ "app": text(), "path": { "type": "string", "pattern": "^/" }, "fields": texts() });
    let passwords = json!({
        "htpasswd": text(),
        "realm": text(),
        "weak": { "type": "boolean" },
        "keep": { "type": "boolean" },
        "field": text(),
    });
    let compression = json!({
        "codings": texts(),
        "types": texts(),
        "min-size": { "$ref": "#/$defs/text" },
        "max-size": { "$ref": "#/$defs/text" },
        "private": { "type": "boolean" },
    });
    let cache = json!({
        "size": { "$ref": "#/$defs/text" },
        "max-object": { "$ref": "#/$defs/text" },
        "default-age": { "$ref": "#/$defs/text" },
        "stale-while-revalidate": { "$ref": "#/$defs/text" },
        "stale-if-error": { "$ref": "#/$defs/text" },
        "request-directives": { "type": "boolean" },
    });
    json!({
        "cache": {
            "description": "Stores responses of apps that allow it, and answers further requests with them",
            "anyOf": [{ "type": "boolean" }, closed(&cache, &[])],
        },
        "request-fields": closed(&changes(), &[]),
        "response-fields": closed(&of_responses, &[]),
        "limit": {
            "description": "Limits the rate or the number of requests; one over the limit gets a 429, or a 503 with queue",
            "anyOf": [{ "const": false }, limit, { "type": "array", "items": limit, "maxItems": 8 }],
        },
        "auth": {
            "description": "Lets only requests pass that have a user and a password, or that an app allows",
            "anyOf": [{ "const": false }, closed(&passwords, &["htpasswd"]), closed(&ask, &["app", "path"])],
        },
        "error-pages": {
            "type": "object",
            "additionalProperties": false,
            "patternProperties": { "^[45][0-9][0-9]$": text() },
        },
        "compress": {
            "description": "Compresses content for clients that accept it",
            "anyOf": [{ "type": "boolean" }, closed(&compression, &[])],
        },
        "cors": { "anyOf": [{ "const": false }, closed(&cors, &["origins"])] },
    })
}

/// A schema with a description.
fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// A table with these keys only.
fn closed(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

/// The properties of `match`.
fn conditions() -> Value {
    let kind = |key: &str| if ["field", "query"].contains(&key) { "#/$defs/named" } else { "#/$defs/patterns" };
    let property = |key: &&str| ((*key).to_owned(), json!({ "$ref": kind(key) }));
    Value::Object(conditions::KEYS.iter().map(property).collect())
}

fn scalar() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

fn patterns() -> Value {
    let one = json!({ "type": ["string", "number"] });
    json!({ "description": "With ! in front: none of these", "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

fn named() -> Value {
    json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/patterns" } })
}

fn object(properties: &Map<String, Value>, required: &[&str], description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}
