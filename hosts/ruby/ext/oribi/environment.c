/* environment.c - the Rack environment of a request: a copy of a template with the request's own values.
 *
 * A client sends the same fields with each of its requests, and most clients send the same fields as other clients. So there is
 * a template for each known list of variables (a shape): an environment without values. For a request the template is copied,
 * and the values are written directly into the hash table of the copy, without looking up their keys.
 */
#include "ruby_host.h"
#include "table_layout.h"

/* The strings of the server's interned keys, by key. Ruby interns them, too, so they are the same objects as equal literals in
 * the source of an app and of its middleware. */
static VALUE *server_keys;
static uint32_t server_key_count;

static VALUE key_version, key_url_scheme, key_input, key_errors, key_multithread, key_multiprocess, key_run_once, key_is_hijack,
    key_hijack, key_early_hints, key_finished, key_after_reply, key_protocol, key_data, key_trailers, key_queue_time, key_deadline,
    key_io_bound, key_puma_io_bound, key_http_version, key_server_software, key_request_path;

/* Values that all requests share. */
static VALUE deadline;
static VALUE text_empty, text_http, text_https, text_http10, text_http11, text_software;
static const char *const method_names[] = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"};
enum { METHOD_GET, METHOD_POST, METHOD_HEAD, METHODS = sizeof method_names / sizeof method_names[0] };
static VALUE methods[METHODS];
static uint32_t key_upgrade = ORIBI_KEY_OTHER, key_accept = ORIBI_KEY_OTHER;

/* Whether templates can be filled entry by entry in this Ruby. */
static bool tables_are_known;

static VALUE interned(const char *text, long size) {
    /* The encoding of literals in most source files. */
    VALUE string = rb_enc_interned_str(text, size, rb_utf8_encoding());
    rb_gc_register_mark_object(string);
    return string;
}

void environment_define(void) {
    VALUE software = rb_sprintf("Oribi/%s", oribi_version());
    server_key_count = oribi_key_count();
    server_keys = ALLOC_N(VALUE, server_key_count);
    for (uint32_t key = 0; key < server_key_count; key++) {
        const oribi_bytes name = oribi_key_name(key);
        server_keys[key] = interned(name.data, (long)name.size);
        if (name.size == 12 && memcmp(name.data, "HTTP_UPGRADE", 12) == 0)
            key_upgrade = key;
        if (name.size == 11 && memcmp(name.data, "HTTP_ACCEPT", 11) == 0)
            key_accept = key;
    }
    key_version = interned(LITERAL("rack.version"));
    key_url_scheme = interned(LITERAL("rack.url_scheme"));
    key_input = interned(LITERAL("rack.input"));
    key_errors = interned(LITERAL("rack.errors"));
    key_multithread = interned(LITERAL("rack.multithread"));
    key_multiprocess = interned(LITERAL("rack.multiprocess"));
    key_run_once = interned(LITERAL("rack.run_once"));
    key_is_hijack = interned(LITERAL("rack.hijack?"));
    key_hijack = interned(LITERAL("rack.hijack"));
    key_early_hints = interned(LITERAL("rack.early_hints"));
    key_finished = interned(LITERAL("rack.response_finished"));
    key_after_reply = interned(LITERAL("rack.after_reply"));
    key_protocol = interned(LITERAL("rack.protocol"));
    key_data = interned(LITERAL("oribi.data"));
    key_trailers = interned(LITERAL("oribi.trailers"));
    key_queue_time = interned(LITERAL("oribi.queue_time"));
    key_deadline = interned(LITERAL("oribi.deadline"));
    key_io_bound = interned(LITERAL("oribi.io_bound"));
    /* Puma's name. */
    key_puma_io_bound = interned(LITERAL("puma.mark_as_io_bound"));
    key_http_version = interned(LITERAL("HTTP_VERSION"));
    key_server_software = interned(LITERAL("SERVER_SOFTWARE"));
    key_request_path = interned(LITERAL("REQUEST_PATH"));
    text_empty = interned(LITERAL(""));
    text_http = interned(LITERAL("http"));
    text_https = interned(LITERAL("https"));
    text_http10 = interned(LITERAL("HTTP/1.0"));
    text_http11 = interned(LITERAL("HTTP/1.1"));
    text_software = interned(RSTRING_PTR(software), RSTRING_LEN(software));
    deadline = deadline_define();
    io_bound_define();
    rb_gc_register_mark_object(deadline);
#ifdef ORIBI_TABLES_ARE_KNOWN
    tables_are_known = table_layout_is_as_believed();
#endif
    for (size_t i = 0; i < METHODS; i++)
        methods[i] = interned(method_names[i], (long)strlen(method_names[i]));
}

/* ---- Values ------------------------------------------------------------------------------------------------------------- */

/* Text from a request: binary strings, as Rack requires. */
static VALUE text(const oribi_bytes *bytes) {
    return bytes->size > 0 ? rb_str_new(bytes->data, (long)bytes->size) : text_empty;
}

static bool is(const oribi_bytes *bytes, VALUE string) {
    return (size_t)RSTRING_LEN(string) == bytes->size && memcmp(RSTRING_PTR(string), bytes->data, bytes->size) == 0;
}

/* Returns the previous string if it is equal: the address of a listener or of a proxy is the same for all requests. */
static VALUE text_kept(const oribi_bytes *bytes, Context *context, VALUE *kept) {
    if (RB_UNLIKELY(!is(bytes, *kept)))
        RB_OBJ_WRITE(context->self, kept, rb_str_freeze(rb_str_new(bytes->data, (long)bytes->size)));
    return *kept;
}

static VALUE method_text(const oribi_bytes *bytes) {
    for (size_t i = 0; i < METHODS; i++)
        if (is(bytes, methods[i]))
            return methods[i];
    return text(bytes);
}

static VALUE protocol_text(const oribi_bytes *bytes) {
    if (RB_LIKELY(is(bytes, text_http11)))
        return text_http11;
    return is(bytes, text_http10) ? text_http10 : text(bytes);
}

/* The names in an Upgrade field: "websocket, h2c" (RFC 9110, section 7.8). */
static VALUE upgrade_names(const oribi_bytes *bytes) {
    VALUE list = rb_ary_new();
    const char *at = bytes->data, *end = bytes->data + bytes->size;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (stop > at)
            rb_ary_push(list, rb_str_new(at, stop - at));
        at = next;
    }
    return list;
}

/* Entries of a request that are not variables. They follow the variables, in this order. */
enum {
    OWN_REQUEST_PATH,
    OWN_URL_SCHEME,
    OWN_HTTP_VERSION,
    OWN_HIJACK,
    OWN_EARLY_HINTS,
    OWN_AFTER_REPLY,
    OWN_FINISHED,
    OWN_INPUT,
    OWN_PROTOCOL,
    OWN_KEYS
};

/* The values of a request. They are made before the environment, so that a copy of a template can be filled without an
 * allocation in between. */
typedef struct {
    VALUE of_variables[ENVIRONMENT_VARIABLES];
    VALUE own[OWN_KEYS]; /* Qundef without the variable */
} Values;

static void make_fixed_values(Values *values, Call *call) {
    const oribi_variable *variables = call->request->variables;
    Context *context = call->context;
    VALUE *of = values->of_variables;
    of[ORIBI_REQUEST_METHOD] = method_text(&variables[ORIBI_REQUEST_METHOD].value);
    of[ORIBI_SCRIPT_NAME] = text(&variables[ORIBI_SCRIPT_NAME].value);
    of[ORIBI_PATH_INFO] = text(&variables[ORIBI_PATH_INFO].value);
    of[ORIBI_REQUEST_URI] = text(&variables[ORIBI_REQUEST_URI].value);
    of[ORIBI_QUERY_STRING] = text(&variables[ORIBI_QUERY_STRING].value);
    of[ORIBI_SERVER_NAME] = text_kept(&variables[ORIBI_SERVER_NAME].value, context, &context->server_name);
    of[ORIBI_SERVER_PORT] = text_kept(&variables[ORIBI_SERVER_PORT].value, context, &context->server_port);
    of[ORIBI_SERVER_PROTOCOL] = protocol_text(&variables[ORIBI_SERVER_PROTOCOL].value);
    of[ORIBI_REMOTE_ADDR] = text_kept(&variables[ORIBI_REMOTE_ADDR].value, context, &context->remote_address);
    of[ORIBI_REMOTE_PORT] = text(&variables[ORIBI_REMOTE_PORT].value);
}

/* Makes all values except those that need the environment. */
static void make_own_values(Values *values, Call *call) {
    VALUE *own = values->own;
    /* Puma's name for the path of the target, and the same object there as well. */
    own[OWN_REQUEST_PATH] = values->of_variables[ORIBI_PATH_INFO];
    own[OWN_URL_SCHEME] = call->request->https ? text_https : text_http;
    own[OWN_HTTP_VERSION] = rack_is(3, 0) ? Qundef : values->of_variables[ORIBI_SERVER_PROTOCOL];
    own[OWN_HIJACK] = call->ticket = ticket_new(call);
    own[OWN_EARLY_HINTS] = server.early_hints ? call->ticket : Qundef;
    own[OWN_AFTER_REPLY] = call->after_reply = rb_ary_new_capa(0);
    own[OWN_FINISHED] = Qundef;
    if (rack_is(3, 0))
        own[OWN_FINISHED] = call->finished = rb_ary_new_capa(0);
    own[OWN_INPUT] = rack_is(3, 1) ? Qundef : input_empty();
    if (call->request->content.size > 0)
        own[OWN_INPUT] = call->input = input_new(&call->request->content);
    own[OWN_PROTOCOL] = Qundef;
}

static const VALUE *own_key(int number) {
    static const VALUE *const keys[OWN_KEYS] = {
        [OWN_REQUEST_PATH] = &key_request_path, [OWN_URL_SCHEME] = &key_url_scheme, [OWN_HTTP_VERSION] = &key_http_version, [OWN_HIJACK] = &key_hijack,
        [OWN_EARLY_HINTS] = &key_early_hints, [OWN_AFTER_REPLY] = &key_after_reply, [OWN_FINISHED] = &key_finished,
        [OWN_INPUT] = &key_input, [OWN_PROTOCOL] = &key_protocol,
    };
    return keys[number];
}

/* HTTP_VERSION is the protocol's version; a field called Version must not change it. */
static bool is_misleading(const oribi_variable *variable) {
    return variable->key >= server_key_count && is(&variable->name, key_http_version);
}

/* Whether a variable marks an event of a connection. No client can send such a field, because of the slash. */
static bool marks_event(const oribi_variable *variable) {
    return variable->name.size == 16 && memcmp(variable->name.data, "HTTP_ORIBI/EVENT", 16) == 0;
}

/* Whether the value of Accept begins as that of a client that wants a stream of events. */
static bool wants_events(const oribi_bytes *accept) {
    return accept->size >= 17 && memcmp(accept->data, "text/event-stream", 17) == 0;
}

/* Whether a variable shows that the connection of its request may stay open without the app. */
static bool asks_for_life(const oribi_variable *variable) {
    return variable->key == key_upgrade || (variable->key == key_accept && wants_events(&variable->value));
}

/* ---- Any environment ---------------------------------------------------------------------------------------------------- */

static void set_own(VALUE environment, const VALUE *own) {
    for (int i = 0; i < OWN_KEYS; i++)
        if (own[i] != Qundef)
            rb_hash_aset(environment, *own_key(i), own[i]);
}

static void set_constants(VALUE environment, Context *context) {
    rb_hash_aset(environment, key_server_software, text_software);
    rb_hash_aset(environment, key_errors, rb_stderr);
    rb_hash_aset(environment, key_is_hijack, Qtrue);
    rb_hash_aset(environment, key_multithread, server.multithread ? Qtrue : Qfalse);
    rb_hash_aset(environment, key_multiprocess, Qtrue);
    rb_hash_aset(environment, key_run_once, Qfalse);
    rb_hash_aset(environment, key_deadline, deadline);
    if (server.io_threads) {
        rb_hash_aset(environment, key_io_bound, io_bound_of(context));
        rb_hash_aset(environment, key_puma_io_bound, io_bound_of(context));
    }
    if (!rack_is(3, 0))
        rb_hash_aset(environment, key_version, rb_obj_freeze(rb_ary_new_from_args(2, INT2FIX(1), INT2FIX(3))));
}

static VALUE name_of(const oribi_variable *variable) {
    if (variable->key < server_key_count)
        return server_keys[variable->key];
    return rb_enc_interned_str(variable->name.data, (long)variable->name.size, rb_utf8_encoding());
}

/* Lays out a request key by key, in the order of a shape, so that an app sees no difference. */
static VALUE fill_by_key(Call *call, Values *values) {
    const oribi_request *request = call->request;
    VALUE environment = rb_hash_new();
    for (size_t i = 0; i < request->variable_count; i++) {
        const oribi_variable *variable = &request->variables[i];
        VALUE value = i < ORIBI_FIXED_VARIABLES ? values->of_variables[i] : text(&variable->value);
        if (variable->key == key_upgrade && rack_is(3, 0))
            values->own[OWN_PROTOCOL] = upgrade_names(&variable->value);
        if (marks_event(variable))
            call->live = LIVE_EVENT;
        else if (call->live == LIVE_NONE && asks_for_life(variable))
            call->live = LIVE_ASKED;
        if (!is_misleading(variable))
            rb_hash_aset(environment, name_of(variable), value);
    }
    set_own(environment, values->own);
    set_constants(environment, call->context);
    return environment;
}

/* ---- Shapes ------------------------------------------------------------------------------------------------------------- */

/* Whether the entries of a template are laid out as expected. */
static bool is_as_expected(VALUE template, size_t variables, VALUE names, const VALUE *own) {
    const struct st_table_entry *entry = entries_of(template);
    if (!entries_are_dense(template))
        return false;
    for (size_t i = 0; i < variables; i++, entry++)
        if (entry->key != RARRAY_AREF(names, (long)i) || entry->record != Qnil)
            return false;
    for (int i = 0; i < OWN_KEYS; i++)
        if (own[i] != Qundef && ((entry++)->key != *own_key(i)))
            return false;
    return true;
}

/* Puts the keys of the entries that are not variables into a template, with nil as their values: a template lives on and must
 * not keep a request alive. */
static void set_own_keys(VALUE template, const VALUE *own) {
    for (int i = 0; i < OWN_KEYS; i++)
        if (own[i] != Qundef)
            rb_hash_aset(template, *own_key(i), Qnil);
}

/* Makes a shape of a request. Returns false if the environment cannot be filled by a template. */
static bool shape_make(Context *context, Shape *shape, const Call *call, const Values *values) {
    const oribi_request *request = call->request;
    VALUE template = rb_hash_new(), names = rb_ary_new();
    for (size_t i = 0; i < request->variable_count; i++) {
        VALUE name = name_of(&request->variables[i]);
        if (is_misleading(&request->variables[i]))
            return false;
        rb_ary_push(names, name);
        rb_hash_aset(template, name, Qnil);
    }
    set_own_keys(template, values->own);
    set_constants(template, context);
    if ((size_t)RHASH_SIZE(template) <= request->variable_count
        || !is_as_expected(template, request->variable_count, names, values->own))
        return false;
    shape->count = 0;
    RB_OBJ_WRITE(context->self, &shape->template, template);
    RB_OBJ_WRITE(context->self, &shape->names, names);
    shape->is_event = false;
    shape->accept_at = 0;
    for (size_t i = ORIBI_FIXED_VARIABLES; i < request->variable_count; i++) {
        shape->keys[i] = request->variables[i].key;
        shape->is_event |= marks_event(&request->variables[i]);
        if (request->variables[i].key == key_accept)
            shape->accept_at = i;
    }
    shape->has_input = values->own[OWN_INPUT] != Qundef;
    shape->count = request->variable_count;
    return true;
}

static bool shape_fits(const Shape *shape, const Call *call, const Values *values) {
    const oribi_request *request = call->request;
    if (shape->count != request->variable_count || shape->has_input != (values->own[OWN_INPUT] != Qundef))
        return false;
    for (size_t i = ORIBI_FIXED_VARIABLES; i < shape->count; i++) {
        const oribi_variable *variable = &request->variables[i];
        if (variable->key != shape->keys[i])
            return false;
        if (variable->key >= server_key_count && !is(&variable->name, RARRAY_AREF(shape->names, (long)i)))
            return false;
    }
    return true;
}

/* Returns the shape of a request. Makes a new one if it pays; NULL if the environment must be laid out key by key. */
static const Shape *shape_of(Call *call, const Values *values) {
    Context *context = call->context;
    Shape *shape = &context->shapes[context->last_shape];
    if (RB_LIKELY(shape_fits(shape, call, values)))
        return shape;
    for (unsigned i = 0; i < SHAPES; i++) {
        if (shape_fits(&context->shapes[i], call, values)) {
            context->last_shape = i;
            return &context->shapes[i];
        }
    }
    if (call->request->variable_count > ENVIRONMENT_VARIABLES || !tables_are_known)
        return NULL;
    /* A new shape costs as much as several environments. When all places are in use, only one in SHAPES requests without a
     * shape may replace one. */
    if (context->shapes[context->next_shape].count > 0 && ++context->misses % SHAPES != 0)
        return NULL;
    shape = &context->shapes[context->next_shape];
    if (!shape_make(context, shape, call, values))
        return NULL;
    context->last_shape = context->next_shape;
    context->next_shape = (context->next_shape + 1) % SHAPES;
    return shape;
}

static VALUE fill_by_shape(const Shape *shape, const Values *values) {
    VALUE environment = rb_hash_dup(shape->template);
    struct st_table_entry *entry = entries_of(environment);
    /* The collector may be in the middle of marking, and may have marked the copy already. This one call makes it scan the copy
     * again, and is cheaper than a write barrier for each value. */
    RB_OBJ_WB_UNPROTECT(environment);
    for (size_t i = 0; i < shape->count; i++)
        (entry++)->record = values->of_variables[i];
    for (int i = 0; i < OWN_KEYS; i++)
        if (values->own[i] != Qundef)
            (entry++)->record = values->own[i];
    return environment;
}

/* Returns the whole path of the target, which the web server has divided into SCRIPT_NAME and PATH_INFO. */
static VALUE path_of_target(const Call *call) {
    const oribi_bytes *target = &call->request->variables[ORIBI_REQUEST_URI].value;
    const char *query = target->size > 0 ? memchr(target->data, '?', target->size) : NULL;
    const oribi_bytes path = {target->data, query ? (size_t)(query - target->data) : target->size};
    return text(&path);
}

/* Adapts the environment of a request that came through a web server. The socket belongs to the web server, so the app gets
 * neither rack.hijack nor early hints. */
static void adapt_to_gateway(Call *call) {
    VALUE environment = call->environment;
    rb_hash_aset(environment, key_request_path, path_of_target(call));
    rb_hash_aset(environment, key_is_hijack, Qfalse);
    rb_hash_delete(environment, key_hijack);
    rb_hash_delete(environment, key_early_hints);
    rb_hash_aset(environment, key_errors, errors_new(call));
    if (call->request->data) {
        call->data = input_new(call->request->data);
        rb_hash_aset(environment, key_data, call->data);
    }
}

/* Adds the trailers, in the form of the fields of a response. */
static void add_trailers(Call *call) {
    const oribi_request *request = call->request;
    VALUE trailers = rb_hash_new();
    for (size_t i = 0; i < request->trailer_count; i++) {
        const oribi_field *field = &request->trailers[i];
        VALUE name = rb_enc_interned_str(field->name.data, (long)field->name.size, rb_utf8_encoding());
        VALUE value = text(&field->value), before = rb_hash_lookup(trailers, name);
        if (RB_TYPE_P(before, T_ARRAY))
            rb_ary_push(before, value);
        else
            rb_hash_aset(trailers, name, NIL_P(before) ? value : rb_ary_new_from_args(2, before, value));
    }
    rb_hash_aset(call->environment, key_trailers, trailers);
}

/* Adapts the environment of a request whose connection also carries other requests, so that its socket cannot be hijacked. */
static void adapt_to_shared_connection(VALUE environment) {
    rb_hash_aset(environment, key_is_hijack, Qfalse);
    rb_hash_delete(environment, key_hijack);
}

static bool is_http2(const oribi_bytes *protocol) {
    return protocol->size == sizeof("HTTP/2.0") - 1 && memcmp(protocol->data, "HTTP/2.0", protocol->size) == 0;
}

void environment_fill(Call *call) {
    const oribi_request *request = call->request;
    Values values;
    const Shape *shape;
    make_fixed_values(&values, call);
    make_own_values(&values, call);
    call->bodiless = values.of_variables[ORIBI_REQUEST_METHOD] == methods[METHOD_HEAD];
    if (RB_LIKELY(request->variable_count <= ENVIRONMENT_VARIABLES)) {
        for (size_t i = ORIBI_FIXED_VARIABLES; i < request->variable_count; i++) {
            values.of_variables[i] = text(&request->variables[i].value);
            if (RB_UNLIKELY(request->variables[i].key == key_upgrade)) {
                call->live = LIVE_ASKED;
                if (rack_is(3, 0))
                    values.own[OWN_PROTOCOL] = upgrade_names(&request->variables[i].value);
            }
        }
    }
    shape = shape_of(call, &values);
    call->environment = RB_LIKELY(shape != NULL) ? fill_by_shape(shape, &values) : fill_by_key(call, &values);
    if (RB_LIKELY(shape != NULL)) {
        if (RB_UNLIKELY(shape->is_event))
            call->live = LIVE_EVENT;
        else if (RB_UNLIKELY(wants_events(&request->variables[shape->accept_at].value)))
            call->live = LIVE_ASKED;
    }
    if (RB_UNLIKELY(call->live != LIVE_NONE))
        offer_make(call);
    if (RB_UNLIKELY(request->gateway))
        adapt_to_gateway(call);
    else if (RB_UNLIKELY(is_http2(&request->variables[ORIBI_SERVER_PROTOCOL].value)))
        adapt_to_shared_connection(call->environment);
    if (RB_UNLIKELY(request->trailer_count > 0))
        add_trailers(call);
    if (RB_UNLIKELY(request->queue_time >= 0))
        rb_hash_aset(call->environment, key_queue_time, DBL2NUM(request->queue_time));
    ticket_bind(call->ticket, call->environment);
}
