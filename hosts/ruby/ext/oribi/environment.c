/* environment.c - the Rack environment of a request: a copy of a template with the request's own values put in. */
#include "ruby_host.h"

/* The strings of the server's keys, by their number, and those that Rack adds. All are interned: the strings of an app's source
 * and of its middleware are the same objects. */
static VALUE *server_keys;
static uint32_t server_key_count;

static VALUE key_version, key_url_scheme, key_input, key_errors, key_multithread, key_multiprocess, key_run_once, key_is_hijack,
    key_hijack, key_early_hints, key_finished, key_after_reply, key_protocol, key_http_version, key_server_software;
VALUE key_hijack_io;

/* Values that need not be made for each request. */
static VALUE text_empty, text_http, text_https, text_http10, text_http11;
static const char *const method_names[] = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"};
#define METHODS (sizeof method_names / sizeof method_names[0])
static VALUE methods[METHODS];
static uint32_t key_upgrade = ORIBI_KEY_OTHER;

static VALUE interned(const char *text, long size) {
    VALUE string = rb_enc_interned_str(text, size, rb_usascii_encoding());
    rb_gc_register_mark_object(string);
    return string;
}

/* A key: with the encoding that literals have in most sources, so that they are the same objects. */
static VALUE interned_key(const char *text, long size) {
    VALUE string = rb_enc_interned_str(text, size, rb_utf8_encoding());
    rb_gc_register_mark_object(string);
    return string;
}

void environment_define(void) {
    server_key_count = oribi_key_count();
    server_keys = ALLOC_N(VALUE, server_key_count);
    for (uint32_t key = 0; key < server_key_count; key++) {
        const oribi_bytes name = oribi_key_name(key);
        server_keys[key] = interned_key(name.data, (long)name.size);
        if (name.size == 12 && memcmp(name.data, "HTTP_UPGRADE", 12) == 0)
            key_upgrade = key;
    }
    key_version = interned_key(LITERAL("rack.version"));
    key_url_scheme = interned_key(LITERAL("rack.url_scheme"));
    key_input = interned_key(LITERAL("rack.input"));
    key_errors = interned_key(LITERAL("rack.errors"));
    key_multithread = interned_key(LITERAL("rack.multithread"));
    key_multiprocess = interned_key(LITERAL("rack.multiprocess"));
    key_run_once = interned_key(LITERAL("rack.run_once"));
    key_is_hijack = interned_key(LITERAL("rack.hijack?"));
    key_hijack = interned_key(LITERAL("rack.hijack"));
    key_hijack_io = interned_key(LITERAL("rack.hijack_io"));
    key_early_hints = interned_key(LITERAL("rack.early_hints"));
    key_finished = interned_key(LITERAL("rack.response_finished"));
    key_after_reply = interned_key(LITERAL("rack.after_reply"));
    key_protocol = interned_key(LITERAL("rack.protocol"));
    key_http_version = interned_key(LITERAL("HTTP_VERSION"));
    key_server_software = interned_key(LITERAL("SERVER_SOFTWARE"));
    text_empty = interned(LITERAL(""));
    text_http = interned(LITERAL("http"));
    text_https = interned(LITERAL("https"));
    text_http10 = interned(LITERAL("HTTP/1.0"));
    text_http11 = interned(LITERAL("HTTP/1.1"));
    for (size_t i = 0; i < METHODS; i++)
        methods[i] = interned(method_names[i], (long)strlen(method_names[i]));
}

/* What all environments have in common, in the order in which an app sees it. */
VALUE environment_template(void) {
    VALUE template = rb_hash_new();
    for (uint32_t key = 0; key < ORIBI_FIXED_VARIABLES; key++)
        rb_hash_aset(template, server_keys[key], text_empty);
    rb_hash_aset(template, server_keys[ORIBI_REQUEST_METHOD], methods[0]);
    rb_hash_aset(template, server_keys[ORIBI_SERVER_PROTOCOL], text_http11);
    rb_hash_aset(template, key_server_software,
                 rb_str_freeze(rb_sprintf("Oribi/%s", oribi_version())));
    rb_hash_aset(template, key_url_scheme, text_http);
    rb_hash_aset(template, key_errors, rb_stderr);
    rb_hash_aset(template, key_is_hijack, Qtrue);
    rb_hash_aset(template, key_multithread, server.multithread ? Qtrue : Qfalse);
    rb_hash_aset(template, key_multiprocess, Qtrue);
    rb_hash_aset(template, key_run_once, Qfalse);
    if (!rack_is(3, 0)) {
        rb_hash_aset(template, key_http_version, text_http11);
        rb_hash_aset(template, key_version, rb_obj_freeze(rb_ary_new_from_args(2, INT2FIX(1), INT2FIX(3))));
    }
    if (!rack_is(3, 1))
        rb_hash_aset(template, key_input, input_empty());
    return template;
}

/* Text from outside: bytes, as Rack wants them. */
static VALUE text(const oribi_bytes *bytes) {
    return bytes->size > 0 ? rb_str_new(bytes->data, (long)bytes->size) : text_empty;
}

static bool is(const oribi_bytes *bytes, VALUE string) {
    return (size_t)RSTRING_LEN(string) == bytes->size && memcmp(RSTRING_PTR(string), bytes->data, bytes->size) == 0;
}

/* The same string as `*kept` if the bytes are its, else a new one that takes its place. */
static VALUE text_kept(const oribi_bytes *bytes, Context *context, VALUE *kept) {
    if (!is(bytes, *kept))
        RB_OBJ_WRITE(context->self, kept, rb_str_freeze(rb_str_new(bytes->data, (long)bytes->size)));
    return *kept;
}

static VALUE method_text(const oribi_bytes *bytes) {
    for (size_t i = 0; i < METHODS; i++)
        if (is(bytes, methods[i]))
            return methods[i];
    return text(bytes);
}

/* The names in an Upgrade field: "websocket, h2c" (RFC 9110, section 7.8). */
static VALUE protocols(const oribi_bytes *bytes) {
    VALUE names_of_all = rb_ary_new();
    const char *at = bytes->data, *end = bytes->data + bytes->size;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (stop > at)
            rb_ary_push(names_of_all, rb_str_new(at, stop - at));
        at = next;
    }
    return names_of_all;
}

/* The variables whose value mostly is the template's. */
static void set_unless_same(VALUE environment, VALUE template, uint32_t key, const oribi_bytes *bytes) {
    VALUE usual = rb_hash_lookup(template, server_keys[key]);
    if (is(bytes, usual))
        return;
    if (key != ORIBI_QUERY_STRING && RSTRING_LEN(usual) == 0) {
        /* The first request: a listener's name and port are those of most that follow. */
        usual = rb_str_freeze(rb_str_new(bytes->data, (long)bytes->size));
        rb_hash_aset(template, server_keys[key], usual);
        rb_hash_aset(environment, server_keys[key], usual);
        return;
    }
    rb_hash_aset(environment, server_keys[key], text(bytes));
}

void environment_fill(Call *call) {
    const oribi_request *request = call->request;
    const oribi_variable *variables = request->variables;
    Context *context = call->context;
    VALUE template = context->template;
    VALUE environment = rb_hash_dup(template);
    call->environment = environment;

    if (!is(&variables[ORIBI_REQUEST_METHOD].value, methods[0]))
        rb_hash_aset(environment, server_keys[ORIBI_REQUEST_METHOD], method_text(&variables[ORIBI_REQUEST_METHOD].value));
    call->bodiless = is(&variables[ORIBI_REQUEST_METHOD].value, methods[2]);
    rb_hash_aset(environment, server_keys[ORIBI_PATH_INFO], text(&variables[ORIBI_PATH_INFO].value));
    rb_hash_aset(environment, server_keys[ORIBI_REQUEST_URI], text(&variables[ORIBI_REQUEST_URI].value));
    set_unless_same(environment, template, ORIBI_QUERY_STRING, &variables[ORIBI_QUERY_STRING].value);
    set_unless_same(environment, template, ORIBI_SCRIPT_NAME, &variables[ORIBI_SCRIPT_NAME].value);
    set_unless_same(environment, template, ORIBI_SERVER_NAME, &variables[ORIBI_SERVER_NAME].value);
    set_unless_same(environment, template, ORIBI_SERVER_PORT, &variables[ORIBI_SERVER_PORT].value);
    if (!is(&variables[ORIBI_SERVER_PROTOCOL].value, text_http11)) {
        VALUE protocol = is(&variables[ORIBI_SERVER_PROTOCOL].value, text_http10)
                             ? text_http10
                             : text(&variables[ORIBI_SERVER_PROTOCOL].value);
        rb_hash_aset(environment, server_keys[ORIBI_SERVER_PROTOCOL], protocol);
        if (!rack_is(3, 0))
            rb_hash_aset(environment, key_http_version, protocol);
    }
    rb_hash_aset(environment, server_keys[ORIBI_REMOTE_ADDR],
                 text_kept(&variables[ORIBI_REMOTE_ADDR].value, context, &context->remote_address));
    rb_hash_aset(environment, server_keys[ORIBI_REMOTE_PORT], text(&variables[ORIBI_REMOTE_PORT].value));

    for (size_t i = ORIBI_FIXED_VARIABLES; i < request->variable_count; i++) {
        const oribi_variable *variable = &variables[i];
        if (variable->key < server_key_count) {
            rb_hash_aset(environment, server_keys[variable->key], text(&variable->value));
            if (variable->key == key_upgrade && rack_is(3, 0))
                rb_hash_aset(environment, key_protocol, protocols(&variable->value));
        } else if (variable->name.size != 12 || memcmp(variable->name.data, "HTTP_VERSION", 12) != 0) {
            /* HTTP_VERSION means the protocol's version; a field called Version must not change it. */
            rb_hash_aset(environment, rb_str_new(variable->name.data, (long)variable->name.size), text(&variable->value));
        }
    }

    if (request->https)
        rb_hash_aset(environment, key_url_scheme, text_https);
    if (request->content_size > 0) {
        call->input = input_new(request);
        rb_hash_aset(environment, key_input, call->input);
    }
    call->ticket = ticket_new(call);
    rb_hash_aset(environment, key_hijack, call->ticket);
    if (server.early_hints)
        rb_hash_aset(environment, key_early_hints, call->ticket);
    if (rack_is(3, 0)) {
        call->finished = rb_ary_new();
        rb_hash_aset(environment, key_finished, call->finished);
    }
    call->after_reply = rb_ary_new();
    rb_hash_aset(environment, key_after_reply, call->after_reply);
}
