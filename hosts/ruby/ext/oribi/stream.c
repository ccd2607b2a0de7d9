/* stream.c - Oribi::Stream, to which a body with `call` writes.
 *
 * The app may keep the stream and write to it after the call of the body; then the stream answers the exchange. Only the
 * garbage collector can determine whether the app has kept it. If the body has returned without closing its stream, and nothing
 * else refers to the stream, the response is complete. If the app has written to the stream after the call and then drops it
 * unfinished, the response is cut. So no client waits for ever, and no truncated response looks complete.
 */
#include "ruby_host.h"

typedef struct {
    VALUE context; /* Context.self */
    VALUE input;   /* the source of read, or nil */
    VALUE record;  /* work for the end of the stream once the call is over, see deferred.c; Qfalse before */
    VALUE source;  /* the body, whose trailers are read when the stream is closed; Qfalse afterwards */
    Call *call;    /* the call whose head has not been sent yet; NULL afterwards, and when the call is over */
    Call *present; /* the call that is not over; NULL afterwards */
    oribi_lane *lane;
    oribi_exchange exchange;
    uint64_t serial; /* from 1 */
    unsigned forks;
    bool chunked; /* the app's content consists of chunks */
    enum { STREAM_OPEN, STREAM_GONE, STREAM_CLOSED } state;
    bool kept; /* the call is over */
    bool used; /* the app has used the stream since the call was over */
} Stream;

/* Whether no app has used a stream after the call of its body so far. If so, it is worth collecting garbage at once when a body
 * has left its stream open, because probably nothing refers to that stream. */
static bool nobody_goes_on = true;

static VALUE stream_class;

static void stream_mark(void *pointer) {
    const Stream *stream = (const Stream *)pointer;
    rb_gc_mark(stream->context);
    rb_gc_mark(stream->input);
    rb_gc_mark(stream->record);
    rb_gc_mark(stream->source);
}

static void stream_free(void *pointer) {
    Stream *stream = (Stream *)pointer;
    if (stream->kept && stream->state != STREAM_CLOSED && stream->forks == fork_count && threads_have_lane()) {
        static const char message[] = "the app dropped a stream without closing it";
        if (stream->state == STREAM_OPEN && !stream->used) {
            oribi_finish(stream->lane, stream->exchange);
        } else {
            if (stream->state == STREAM_OPEN)
                oribi_log(ORIBI_LOG_ERROR, message, sizeof message - 1);
            oribi_abandon(stream->lane, stream->exchange);
        }
        deferred_note_dropped(stream->serial);
    }
    xfree(stream);
}

static size_t stream_size(const void *pointer) {
    return sizeof(Stream);
}

static const rb_data_type_t stream_type = {
    .wrap_struct_name = "Oribi::Stream",
    .function = {.dmark = stream_mark, .dfree = stream_free, .dsize = stream_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static Stream *stream_of(VALUE self) {
    Stream *stream = (Stream *)rb_check_typeddata(self, &stream_type);
    if (stream->forks != fork_count)
        rb_raise(rb_eIOError, "a client can only be answered by the process that received its request");
    return stream;
}

/* Records that the stream is used after the call. */
static void note_use(Stream *stream) {
    if (stream->kept) {
        stream->used = true;
        nobody_goes_on = false;
    }
}

static Context *context_of(const Stream *stream) {
    return (Context *)RTYPEDDATA_DATA(stream->context);
}

static Stream *open_stream(VALUE self) {
    Stream *stream = stream_of(self);
    if (stream->state == STREAM_CLOSED || !threads_have_lane())
        rb_raise(rb_eIOError, "closed stream");
    return stream;
}

/* Handles the server's result. */
static void accept(Stream *stream, oribi_result result) {
    if (RB_LIKELY(result == ORIBI_OK))
        return;
    stream->state = STREAM_GONE;
    if (result == ORIBI_GONE)
        rb_raise(rb_path2class("Errno::EPIPE"), "the client has gone");
    rb_raise(response_error, "%s", oribi_last_error());
}

/* Sends the head, unless that has been done. The head is sent with the first byte of content, so if the body fails before, the
 * client gets a 500. */
static oribi_result begin(Stream *stream) {
    Call *call = stream->call;
    const Head *head;
    if (RB_LIKELY(!call))
        return ORIBI_OK;
    stream->call = NULL;
    if (ticket_is_taken(call->ticket)) {
        call->state = CALL_TAKEN;
        return ORIBI_GONE;
    }
    call->state = CALL_STARTED;
    call->streams = true;
    head = &call->head;
    return oribi_start(stream->lane, stream->exchange, head->status, head->fields, head->field_count);
}

static size_t write_one(Stream *stream, VALUE piece) {
    size_t size;
    note_use(stream);
    if (!RB_TYPE_P(piece, T_STRING))
        piece = rb_obj_as_string(piece);
    /* As in body.c: the server may wait for the client between two chunks. */
    if (RB_UNLIKELY(stream->chunked))
        piece = rb_str_new_frozen(piece);
    size = (size_t)RSTRING_LEN(piece);
    if (stream->state == STREAM_GONE)
        rb_raise(rb_path2class("Errno::EPIPE"), "the client has gone");
    if (size > 0) {
        accept(stream, begin(stream));
        accept(stream, room_write(stream->lane, stream->exchange, RSTRING_PTR(piece), size));
        rb_thread_check_ints();
    }
    RB_GC_GUARD(piece);
    return size;
}

static VALUE stream_write(int argc, VALUE *argv, VALUE self) {
    size_t total = 0;
    for (int i = 0; i < argc; i++)
        total += write_one(open_stream(self), argv[i]);
    return SIZET2NUM(total);
}

static VALUE stream_append(VALUE self, VALUE piece) {
    write_one(open_stream(self), piece);
    return self;
}

/* Sends a head whose content has not arrived yet. */
static VALUE stream_flush(VALUE self) {
    Stream *stream = open_stream(self);
    note_use(stream);
    if (stream->state == STREAM_OPEN) {
        accept(stream, begin(stream));
        accept(stream, room_write(stream->lane, stream->exchange, "", 0));
    }
    return self;
}

/* Runs the deferred work of the request, if the call has ended before the response. */
static void settle(Stream *stream) {
    VALUE record = stream->record;
    stream->record = Qfalse;
    if (stream->kept && record)
        deferred_run_record(context_of(stream), record);
}

/* Ends the content, with the trailers of the body. */
static oribi_result finish(Stream *stream) {
    const VALUE body = stream->source;
    oribi_result result = ORIBI_OK;
    Head trailers = {.field_count = 0};
    /* The method `trailers` of the body may also close the stream. */
    stream->source = Qfalse;
    if (!body || !head_of_trailers(&trailers, body)) {
        if (stream->state == STREAM_OPEN)
            result = begin(stream);
        return stream->state == STREAM_OPEN && result == ORIBI_OK ? oribi_finish(stream->lane, stream->exchange) : result;
    }
    if (stream->state == STREAM_OPEN)
        result = begin(stream);
    if (stream->state == STREAM_OPEN && result == ORIBI_OK)
        result = oribi_finish_with_trailers(stream->lane, stream->exchange, trailers.fields, trailers.field_count);
    RB_GC_GUARD(trailers.bytes);
    RB_GC_GUARD(trailers.memory);
    return result;
}

static VALUE stream_close(VALUE self) {
    Stream *stream = stream_of(self);
    oribi_result result = ORIBI_OK;
    if (stream->state == STREAM_CLOSED)
        return Qnil;
    note_use(stream);
    if (stream->state == STREAM_OPEN && threads_have_lane())
        result = finish(stream);
    if (stream->state == STREAM_CLOSED)
        return Qnil;
    stream->state = STREAM_CLOSED;
    room_note_use();
    if (stream->present)
        stream->present->streams = false;
    settle(stream);
    if (result == ORIBI_INVALID || result == ORIBI_FAILED)
        rb_raise(response_error, "%s", oribi_last_error());
    RB_GC_GUARD(self);
    return Qnil;
}

static VALUE stream_close_read(VALUE self) {
    Stream *stream = stream_of(self);
    stream->input = Qnil;
    return Qnil;
}

static VALUE stream_is_closed(VALUE self) {
    return stream_of(self)->state == STREAM_CLOSED ? Qtrue : Qfalse;
}

static VALUE stream_read(int argc, VALUE *argv, VALUE self) {
    Stream *stream = open_stream(self);
    if (!NIL_P(stream->input))
        return rb_funcallv(stream->input, names.read, argc, argv);
    return argc > 0 && !NIL_P(argv[0]) ? Qnil : rb_str_new(NULL, 0);
}

void stream_define(void) {
    stream_class = rb_define_class_under(oribi_module, "Stream", rb_cObject);
    rb_gc_register_mark_object(stream_class);
    rb_undef_alloc_func(stream_class);
    rb_undef_method(CLASS_OF(stream_class), "new");
    rb_define_method(stream_class, "read", stream_read, -1);
    rb_define_method(stream_class, "write", stream_write, -1);
    rb_define_method(stream_class, "<<", stream_append, 1);
    rb_define_method(stream_class, "flush", stream_flush, 0);
    rb_define_method(stream_class, "close", stream_close, 0);
    rb_define_method(stream_class, "close_read", stream_close_read, 0);
    rb_define_method(stream_class, "close_write", stream_close, 0);
    rb_define_method(stream_class, "closed?", stream_is_closed, 0);
}

/* ---- Bodies that are called --------------------------------------------------------------------------------------------- */

typedef struct {
    VALUE body, stream;
} Invocation;

static VALUE invoke(VALUE argument) {
    const Invocation *invocation = (const Invocation *)argument;
    return rb_funcallv(invocation->body, names.call, 1, &invocation->stream);
}

static VALUE stream_new(Call *call) {
    static uint64_t serial;
    Stream *stream;
    VALUE self = TypedData_Make_Struct(stream_class, Stream, &stream_type, stream);
    stream->input = Qnil;
    stream->serial = ++serial;
    stream->lane = call->lane;
    stream->call = stream->present = call;
    stream->exchange = call->exchange;
    stream->forks = call->context->forks;
    stream->chunked = call->head.chunked;
    RB_OBJ_WRITE(self, &stream->context, call->context->self);
    RB_OBJ_WRITE(self, &stream->source, call->body);
    if (call->input)
        RB_OBJ_WRITE(self, &stream->input, call->input);
    return self;
}

void stream_send(Call *call) {
    const Head *head = &call->head;
    Invocation invocation = {call->body, stream_new(call)};
    Stream *stream = (Stream *)RTYPEDDATA_DATA(invocation.stream);
    int state;
    if (!result_accepted(call, oribi_check(call_lane(call), head->status, head->fields, head->field_count)))
        return;
    rb_protect(invoke, (VALUE)&invocation, &state);
    stream->present = NULL;
    if (state) {
        stream->call = NULL;
        if (stream->state == STREAM_CLOSED && call->state == CALL_STARTED)
            call->state = CALL_OVER;
        stream->state = STREAM_CLOSED;
        rb_jump_tag(state);
    }
    if (stream->state == STREAM_OPEN && begin(stream) != ORIBI_OK)
        stream->state = STREAM_GONE;
    if (stream->state != STREAM_OPEN) {
        stream->call = NULL;
        stream->state = STREAM_CLOSED;
        if (call->state != CALL_TAKEN)
            call->state = CALL_OVER;
        return;
    }
    /* The body has left its stream open: another thread or fiber continues, or nothing refers to the stream. The body is closed
     * now, on the thread of the request, which has the state that middleware keeps for the request, such as locks and thread
     * locals. */
    RB_OBJ_WRITE(invocation.stream, &stream->record, deferred_record(call));
    stream->kept = true;
    call->state = CALL_KEPT;
    if (nobody_goes_on)
        deferred_look_for(call->context, stream->serial, stream->record);
    RB_GC_GUARD(invocation.stream);
}
