/* body.c - bodies: Arrays, files, and bodies with each. */
#include "ruby_host.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most pieces of a body that are gathered without an allocation. */
#define FEW_PARTS 16

/* The elements of a body as strings, in an Array that the app cannot reach. */
static VALUE array_of_strings(VALUE array) {
    VALUE strings = rb_ary_new_capa(RARRAY_LEN(array));
    for (long i = 0; i < RARRAY_LEN(array); i++)
        rb_ary_push(strings, rb_obj_as_string(RARRAY_AREF(array, i)));
    return strings;
}

bool body_is_plain(VALUE body) {
    if (!RB_TYPE_P(body, T_ARRAY) || RARRAY_LEN(body) > FEW_PARTS)
        return false;
    for (long i = 0; i < RARRAY_LEN(body); i++)
        if (!RB_TYPE_P(RARRAY_AREF(body, i), T_STRING))
            return false;
    return true;
}

void body_send_array(Call *call, VALUE array) {
    const Head *head = &call->head;
    oribi_bytes few[FEW_PARTS], *parts = few;
    VALUE memory = Qfalse;
    oribi_result result;
    long count;
    if (RB_UNLIKELY(!body_is_plain(array))) {
        array = array_of_strings(array);
        if (RARRAY_LEN(array) > FEW_PARTS) {
            memory = rb_str_new(NULL, RARRAY_LEN(array) * (long)sizeof(oribi_bytes));
            parts = (oribi_bytes *)RSTRING_PTR(memory);
        }
    }
    /* From here on nothing is allocated, because the collector might move the strings. */
    count = RARRAY_LEN(array);
    for (long i = 0; i < count; i++) {
        VALUE part = RARRAY_AREF(array, i);
        parts[i].data = RSTRING_PTR(part);
        parts[i].size = (size_t)RSTRING_LEN(part);
    }
    result = oribi_respond(call_lane(call), call->exchange, head->status, head->fields, head->field_count, parts, (size_t)count);
    RB_GC_GUARD(array);
    RB_GC_GUARD(memory);
    if (result_accepted(call, result))
        call->state = CALL_OVER;
}

bool body_is_unwanted(const Call *call) {
    const int status = call->head.status;
    /* A client that is switched to another protocol gets content in that protocol. */
    return (call->bodiless && status != 101) || status == 204 || status == 205 || status == 304;
}

/* Whether the app has hijacked the socket while its body was examined: then nothing is sent. */
static bool is_taken(Call *call) {
    if (RB_LIKELY(!ticket_is_taken(call->ticket)))
        return false;
    call->state = CALL_TAKEN;
    return true;
}

/* ---- Files -------------------------------------------------------------------------------------------------------------- */

/* Sends the file that to_path has named. Returns false if the file is not regular or cannot be read, or if its size is 0, like
 * that of files in /proc. */
static bool send_file(Call *call, VALUE path) {
    Head *head = &call->head;
    struct stat facts;
    oribi_result result;
    uint64_t size;
    int file;
    if (!RB_TYPE_P(path, T_STRING) || RSTRING_LEN(path) == 0 || memchr(RSTRING_PTR(path), '\0', (size_t)RSTRING_LEN(path)))
        return false;
    if (is_taken(call))
        return true;
    file = open(StringValueCStr(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0) {
        close(file);
        return false;
    }
    size = (uint64_t)facts.st_size;
    /* The app has determined Content-Length earlier. If the file has grown since, only that many bytes are sent. If the file
     * has become shorter, the app's Content-Length is replaced by the size of the file.
     */
    if (head_find_length(head) && head->length <= size)
        size = head->length;
    else if (head->has_length)
        head_remove(head, head->length_at);
    result = oribi_respond_file(call_lane(call), call->exchange, head->status, head->fields, head->field_count, file, 0, size);
    close(file);
    if (result_accepted(call, result))
        call->state = CALL_OVER;
    return true;
}

/* ---- Bodies with each ---------------------------------------------------------------------------------------------------- */

static bool start(Call *call) {
    const Head *head = &call->head;
    if (call->state == CALL_STARTED)
        return true;
    if (is_taken(call))
        return false;
    if (!result_accepted(call, oribi_start(call_lane(call), call->exchange, head->status, head->fields, head->field_count)))
        return false;
    call->state = CALL_STARTED;
    call->streams = true;
    return true;
}

static bool write_bytes(Call *call, const char *data, size_t size) {
    if (!result_accepted(call, room_write(call_lane(call), call->exchange, data, size)))
        return false;
    rb_thread_check_ints();
    return true;
}

static VALUE send_piece(RB_BLOCK_CALL_FUNC_ARGLIST(piece, argument)) {
    Call *call = RTYPEDDATA_DATA(argument);
    const char *data;
    size_t size;
    bool go_on;
    if (RB_UNLIKELY(!call))
        rb_raise(rb_eIOError, "the response is over: the body kept the block that takes its pieces");
    if (RB_UNLIKELY(!RB_TYPE_P(piece, T_STRING)))
        piece = rb_obj_as_string(piece);
    /* The server takes the content out of the chunks and sends it, and may wait for the client in between. Other threads run
     * then, so the piece must be a string that they cannot change. */
    if (RB_UNLIKELY(call->head.chunked))
        piece = rb_str_new_frozen(piece);
    data = RSTRING_PTR(piece);
    size = (size_t)RSTRING_LEN(piece);
    /* The head is sent with the first byte of content, so if the body fails before, the client gets a 500. */
    if (size == 0)
        return Qnil;
    if (call->state == CALL_OPEN && call->head.has_length && size == call->head.length && !is_taken(call)) {
        /* This may be all that the body yields: one call, one packet. */
        const oribi_bytes part = {data, size};
        const Head *head = &call->head;
        if (result_accepted(call, oribi_respond(call_lane(call), call->exchange, head->status, head->fields, head->field_count,
                                                &part, 1)))
            call->state = CALL_OVER;
        RB_GC_GUARD(piece);
        return Qnil;
    }
    if (call->state == CALL_OVER)
        rb_raise(response_error, "the body yields more than its Content-Length says");
    go_on = start(call) && write_bytes(call, data, size);
    RB_GC_GUARD(piece);
    if (!go_on)
        rb_iter_break();
    return Qnil;
}

static void finish(Call *call) {
    Head trailers = {.field_count = 0};
    oribi_result result;
    call->streams = false;
    if (!body_is_unwanted(call) && head_of_trailers(&trailers, call->body))
        result = oribi_finish_with_trailers(call_lane(call), call->exchange, trailers.fields, trailers.field_count);
    else
        result = oribi_finish(call_lane(call), call->exchange);
    RB_GC_GUARD(trailers.bytes);
    RB_GC_GUARD(trailers.memory);
    if (result_accepted(call, result))
        call->state = CALL_OVER;
}

void body_send_none(Call *call) {
    if (start(call))
        finish(call);
}

/* The data of the block that `each` gets: a pointer to the Call, which is removed when `each` is over, because the app may keep
 * the block and call it at any time. */
static const rb_data_type_t pieces_type = {.wrap_struct_name = "oribi pieces"};

static VALUE take_pieces(VALUE holder) {
    const Call *call = RTYPEDDATA_DATA(holder);
    return rb_block_call(call->body, names.each, 0, NULL, send_piece, holder);
}

static VALUE forget_pieces(VALUE holder) {
    RTYPEDDATA_DATA(holder) = NULL;
    return Qnil;
}

static void send_pieces(Call *call) {
    const VALUE holder = rb_data_typed_object_wrap(0, call, &pieces_type);
    /* A Content-Length does not count beside chunks (RFC 9112, section 6.3). */
    if (!call->head.chunked)
        head_find_length(&call->head);
    rb_ensure(take_pieces, holder, forget_pieces, holder);
    if (call->state == CALL_OVER || call->state == CALL_TAKEN || is_taken(call))
        return;
    if (call->state == CALL_OPEN && !call->head.chunked && !rb_respond_to(call->body, names.trailers)) {
        /* The body yielded nothing. */
        body_send_array(call, rb_ary_new());
        return;
    }
    if (start(call))
        finish(call);
}

/* Returns the Array inside of Rack::BodyProxy objects, or nil. Middleware wraps most bodies in such objects, to be told when
 * the body is closed. Those of Rack 2 have no to_ary. */
static VALUE array_in_proxies(VALUE body) {
    while (RB_TYPE_P(body, T_OBJECT) && RBASIC_CLASS(body) == rb_obj_class(body)
           && strcmp(rb_obj_classname(body), "Rack::BodyProxy") == 0)
        body = rb_ivar_get(body, names.body);
    return RB_TYPE_P(body, T_ARRAY) && RBASIC_CLASS(body) == rb_cArray ? body : Qnil;
}

void body_send(Call *call) {
    VALUE body = call->body, array;
    if (RB_SPECIAL_CONST_P(body))
        rb_raise(response_error, "the body must respond to each or call; it is %" PRIsVALUE, describe_value(body));
    /* The server does not remove chunk framing from a file. */
    if (!call->head.chunked && rb_respond_to(body, names.to_path) && !head_has(&call->head, "content-range")
        && send_file(call, rb_funcallv(body, names.to_path, 0, NULL)))
        return;
    if (!RB_TYPE_P(body, T_ARRAY)) {
        array = array_in_proxies(body);
        if (NIL_P(array) && rb_respond_to(body, names.to_ary))
            array = rb_funcallv(body, names.to_ary, 0, NULL);
        if (is_taken(call))
            return;
        if (RB_TYPE_P(array, T_ARRAY)) {
            body_send_array(call, array);
            return;
        }
    }
    if (body_is_unwanted(call) && (rb_respond_to(body, names.each) || rb_respond_to(body, names.call)))
        body_send_none(call);
    else if (rb_respond_to(body, names.each))
        send_pieces(call);
    else if (rb_respond_to(body, names.call))
        stream_send(call);
    else
        rb_raise(response_error, "the body must respond to each or call; it is %" PRIsVALUE, describe_value(body));
}

static VALUE close_body(VALUE argument) {
    Call *call = (Call *)argument;
    call->close_due = false;
    rb_check_funcall(call->body, names.close, 0, NULL);
    return Qnil;
}

void body_close_due(Call *call) {
    if (failure_guard("close of the body failed", call->environment, close_body, (VALUE)call) == GUARD_EXITED)
        call->context->retiring = true;
}
