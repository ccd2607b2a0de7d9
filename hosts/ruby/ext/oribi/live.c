/* live.c - rack.upgrade: connections that stay open while no worker has anything to do with them. An edge owns them, and
 * sends their events as requests; the app answers with commands. lib/oribi/live.rb makes the commands and calls the app's
 * handlers. */
#include "ruby_host.h"

/* The code for an app that has failed (RFC 6455, section 7.4.1), as the command that closes the connection of the request. */
static const char close_as_failed[] = "\3\0\0\0\12\0\0\0\0\0\0\0\0\3\363";

static VALUE live_module, key_upgrade;

/* ---- Commands ------------------------------------------------------------------------------------------------------- */

static VALUE error_class(void) {
    return rb_path2class("Oribi::Error");
}

/* The call of the calling thread, also in a child that it has forked; NULL outside of a request. */
static Call *own_call(void) {
    const Context *context = context_own();
    return context ? context_call(context) : NULL;
}

/* The call of the calling thread that commands can be given in; NULL if there is none. */
static const Call *current_call(void) {
    const Call *call = own_call();
    return call && context_own()->forks == fork_count && threads_have_lane() ? call : NULL;
}

/* Commands on their way to the edges. */
typedef struct Post {
    VALUE bytes;
    int result, give_up;
} Post;

static void *deliver(void *data) {
    Post *post = data;
    post->result = oribi_post(RSTRING_PTR(post->bytes), (size_t)RSTRING_LEN(post->bytes), &post->give_up);
    return NULL;
}

/* Called by another thread if this one is to end, or to be interrupted. */
static void give_up(void *data) {
    __atomic_store_n(&((Post *)data)->give_up, 1, __ATOMIC_RELAXED);
}

/* Gives commands outside of a request. An edge may have to be waited for: other threads run meanwhile. */
static void post_commands(VALUE bytes) {
    Post post = {rb_str_new_frozen(bytes), 0, 0};
    if (!oribi_can_post())
        rb_raise(error_class(), "messages can be sent only by a server with an edge (--edge on), and by its workers");
    rb_thread_call_without_gvl(deliver, &post, give_up, &post);
    RB_GC_GUARD(post.bytes);
    /* Raises what has interrupted the wait, or ends the thread. */
    if (post.give_up)
        rb_thread_check_ints();
    if (post.result < 0)
        rb_raise(error_class(), "%s", oribi_last_error());
}

/* Oribi::Live.command(bytes): returns false if the response has ended. */
static VALUE command(VALUE self, VALUE bytes) {
    const Call *call = current_call();
    oribi_result result;
    StringValue(bytes);
    if (!call) {
        post_commands(bytes);
        return Qtrue;
    }
    if (!oribi_has_live_connections(call->lane))
        rb_raise(error_class(), "WebSockets, event streams and channels need an edge: --edge on");
    result = oribi_command(call->lane, call->exchange, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes));
    RB_GC_GUARD(bytes);
    if (result == ORIBI_INVALID || result == ORIBI_FAILED)
        rb_raise(error_class(), "%s", oribi_last_error());
    return result == ORIBI_OK ? Qtrue : Qfalse;
}

/* Oribi::Live.reachable?: whether messages can be sent. */
static VALUE is_reachable(VALUE self) {
    const Call *call = current_call();
    return (call ? oribi_has_live_connections(call->lane) : oribi_can_post()) ? Qtrue : Qfalse;
}

/* Oribi::Live.client: that of the event of this request, also in its inner fibers, but not in threads. A forked child has it, so
 * that it learns why it cannot give commands. */
static VALUE client(VALUE self) {
    const Call *call = own_call();
    return call ? call->client : Qnil;
}

static VALUE set_client(VALUE self, VALUE client) {
    Call *call = own_call();
    if (call)
        call->client = client;
    return client;
}

void live_define(void) {
    live_module = rb_define_module_under(oribi_module, "Live");
    rb_define_singleton_method(live_module, "command", command, 1);
    rb_define_singleton_method(live_module, "reachable?", is_reachable, 0);
    rb_define_singleton_method(live_module, "client", client, 0);
    rb_define_singleton_method(live_module, "client=", set_client, 1);
    key_upgrade = rb_enc_interned_str(LITERAL("rack.upgrade"), rb_utf8_encoding());
    rb_gc_register_mark_object(key_upgrade);
}

/* ---- Handlers ------------------------------------------------------------------------------------------------------- */

/* Runs the app's handler. If it fails, logs that and closes the connection. */
static void guard(Call *call, VALUE (*function)(VALUE), VALUE argument) {
    VALUE error;
    int state;
    rb_protect(function, argument, &state);
    if (state && is_stray())
        stray_end_as_program(state);
    call_lane(call);
    if (RB_LIKELY(state == 0))
        return;
    error = failure_take_error();
    /* For an event that has taken too long, the backtrace is in the log already. */
    if (!is_request_timeout(error) && failure_log_error(NULL, call->environment, error, NULL) == GUARD_EXITED)
        call->context->retiring = true;
    call->error = error;
    oribi_command(call->lane, call->exchange, close_as_failed, sizeof close_as_failed - 1);
}

static VALUE handle_event(VALUE environment) {
    rb_require("oribi/live");
    return rb_funcall(live_module, rb_intern("event"), 1, environment);
}

static VALUE handle_opening(VALUE client) {
    return rb_funcall(client, rb_intern("opened"), 0);
}

/* The edge needs no response. */
static void respond_with_nothing(Call *call) {
    oribi_respond(call_lane(call), call->exchange, 200, NULL, 0, NULL, 0);
    call->state = CALL_OVER;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

/* Whether the app wants the connection to stay open: its status is below 300, whatever it is. */
static bool is_wanted(const Call *call) {
    VALUE response = rb_check_array_type(call->response), number;
    if (NIL_P(rb_hash_lookup(call->environment, key_upgrade)) || NIL_P(response) || RARRAY_LEN(response) != 3)
        return false;
    number = rb_check_funcall(RARRAY_AREF(response, 0), names.to_i, 0, NULL);
    return RB_FIXNUM_P(number) && FIX2LONG(number) < 300;
}

static bool is_of_connection(const oribi_field *field) {
    static const char *const own[] = {"connection",     "upgrade",      "keep-alive",           "transfer-encoding",
                                      "content-length", "content-type", "sec-websocket-accept", "sec-websocket-extensions"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (field_is(field, own[i]))
            return true;
    return false;
}

/* Removes the fields that are the server's. */
static void remove_own_fields(Head *head) {
    for (size_t i = head->field_count; i-- > 0;)
        if (is_of_connection(&head->fields[i]))
            head_remove(head, i);
}

static bool has_line_end(const oribi_bytes *text) {
    for (size_t i = 0; i < text->size; i++) {
        if (text->data[i] == '\r' || text->data[i] == '\n' || text->data[i] == '\0')
            return true;
    }
    return false;
}

static VALUE lines_of(const Head *head) {
    VALUE lines = rb_str_new(NULL, 0);
    for (size_t i = 0; i < head->field_count; i++) {
        const oribi_field *field = &head->fields[i];
        if (has_line_end(&field->name) || has_line_end(&field->value))
            rb_raise(rb_eArgError, "a field of the response has a line end or a NUL");
        rb_str_cat(lines, field->name.data, (long)field->name.size);
        rb_str_cat(lines, ": ", 2);
        rb_str_cat(lines, field->value.data, (long)field->value.size);
        rb_str_cat(lines, "\r\n", 2);
    }
    return lines;
}

static void respond_as_stream(Call *call) {
    Head *head = &call->head;
    oribi_field fields[2] = {{{"Content-Type", 12}, {"text/event-stream", 17}}, {{"Cache-Control", 13}, {"no-cache", 8}}};
    const size_t added = head_has(head, "cache-control") ? 1 : 2;
    VALUE memory = rb_str_new(NULL, (long)((head->field_count + added) * sizeof(oribi_field)));
    oribi_field *all = (oribi_field *)RSTRING_PTR(memory);
    memcpy(all, fields, added * sizeof(oribi_field));
    memcpy(all + added, head->fields, head->field_count * sizeof(oribi_field));
    if (result_accepted(call, oribi_respond(call_lane(call), call->exchange, 200, all, head->field_count + added, NULL, 0)))
        call->state = CALL_OVER;
    RB_GC_GUARD(memory);
}

static void open_connection(Call *call) {
    VALUE arguments[4], client;
    rb_require("oribi/live");
    response_ignore(call);
    head_copy(&call->head, call->headers);
    remove_own_fields(&call->head);
    arguments[0] = call->live == LIVE_WEBSOCKET ? Qtrue : Qfalse;
    arguments[1] = call->environment;
    arguments[2] = rb_hash_lookup(call->environment, key_upgrade);
    arguments[3] = lines_of(&call->head);
    client = rb_funcallv(live_module, rb_intern("open"), 4, arguments);
    guard(call, handle_opening, client);
    if (call->live == LIVE_WEBSOCKET)
        respond_with_nothing(call);
    else
        respond_as_stream(call);
}

void live_answer(Call *call) {
    if (call->live == LIVE_EVENT) {
        guard(call, handle_event, call->environment);
        respond_with_nothing(call);
        return;
    }
    call->response = rb_funcallv(server.app, names.call, 1, &call->environment);
    call_lane(call);
    if (ticket_is_taken(call->ticket)) {
        call->state = CALL_TAKEN;
        response_ignore(call);
    } else if (is_wanted(call)) {
        open_connection(call);
    } else {
        response_send(call);
    }
}
