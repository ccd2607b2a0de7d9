/* hijack.c - rack.hijack and rack.early_hints, and responses that hand the socket over after their head. */
#include "ruby_host.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static VALUE exchange_class, socket_class, tcp_class, unix_class;
static ID id_for_fd;
static VALUE key_hijack_io;

static void ticket_mark(void *pointer) {
    const Ticket *ticket = (const Ticket *)pointer;
    rb_gc_mark(ticket->context);
    rb_gc_mark(ticket->environment);
    rb_gc_mark(ticket->io);
}

static size_t ticket_size(const void *pointer) {
    return sizeof(Ticket);
}

static const rb_data_type_t ticket_type = {
    .wrap_struct_name = "Oribi::Exchange",
    .function = {.dmark = ticket_mark, .dfree = RUBY_TYPED_DEFAULT_FREE, .dsize = ticket_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

VALUE ticket_new(const Call *call) {
    Ticket *ticket;
    VALUE self = TypedData_Make_Struct(exchange_class, Ticket, &ticket_type, ticket);
    ticket->lane = call->lane;
    ticket->exchange = call->exchange;
    ticket->forks = call->context->forks;
    RB_OBJ_WRITE(self, &ticket->context, call->context->self);
    return self;
}

void ticket_bind(VALUE self, VALUE environment) {
    Ticket *ticket = (Ticket *)RTYPEDDATA_DATA(self);
    RB_OBJ_WRITE(self, &ticket->environment, environment);
}

bool ticket_is_taken(VALUE self) {
    return ((const Ticket *)RTYPEDDATA_DATA(self))->io != Qfalse;
}

/* Wraps a descriptor of a client's socket in the class for its kind of address. */
static VALUE socket_of(int descriptor) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    VALUE class = socket_class, io;
    if (getsockname(descriptor, (struct sockaddr *)&address, &size) == 0) {
        if (address.ss_family == AF_UNIX)
            class = unix_class;
        else if (address.ss_family == AF_INET || address.ss_family == AF_INET6)
            class = tcp_class;
    }
    io = rb_funcall(class, id_for_fd, 1, INT2FIX(descriptor));
    rb_io_binmode(io);
    /* So that it is waited for by the scheduler of the fibers. */
    if (server.fibers) {
        rb_io_t *file;
        GetOpenFile(io, file);
        rb_io_set_nonblock(file);
    }
    return io;
}

static VALUE take_socket(oribi_lane *lane, oribi_exchange exchange) {
    const int descriptor = oribi_take_socket(lane, exchange);
    if (descriptor < 0)
        rb_raise(rb_eIOError, "the client's socket cannot be taken: %s", oribi_last_error());
    return socket_of(descriptor);
}

static VALUE hijack(VALUE self, Ticket *ticket) {
    if (!ticket->io) {
        RB_OBJ_WRITE(self, &ticket->io, take_socket(ticket->lane, ticket->exchange));
        if (!rack_is(3, 0))
            rb_hash_aset(ticket->environment, key_hijack_io, ticket->io);
    }
    return ticket->io;
}

typedef struct {
    const Ticket *ticket;
    VALUE headers;
} Hints;

static VALUE inform(VALUE argument) {
    const Hints *hints = (const Hints *)argument;
    const Ticket *ticket = hints->ticket;
    Head head;
    oribi_result result;
    head_copy(&head, hints->headers);
    /* The methods of the headers may have forked and returned in the child. */
    if (ticket->forks != fork_count)
        stray_end(0);
    result = oribi_inform(ticket->lane, ticket->exchange, 103, head.fields, head.field_count);
    RB_GC_GUARD(head.bytes);
    RB_GC_GUARD(head.memory);
    if (result == ORIBI_INVALID || result == ORIBI_FAILED)
        rb_raise(response_error, "%s", oribi_last_error());
    return Qnil;
}

static VALUE note_unsent_hints(VALUE argument, VALUE error) {
    VALUE text = rb_str_new_cstr("the early hints were not sent: ");
    rb_str_append(text, rb_obj_as_string(rb_funcallv(error, names.message, 0, NULL)));
    failure_write_text(ORIBI_LOG_WARN, ((const Hints *)argument)->ticket->environment, text);
    return Qnil;
}

/* An app works as well without early hints, so it gets no error if they were not sent. */
static VALUE send_hints(const Ticket *ticket, VALUE headers) {
    const Hints hints = {ticket, headers};
    /* The hijacked connection carries another protocol by now, or a response that the app writes itself. */
    if (ticket->forks != fork_count || !threads_have_lane() || ticket->io != Qfalse)
        return Qnil;
    return rb_rescue2(inform, (VALUE)&hints, note_unsent_hints, (VALUE)&hints, response_error, (VALUE)0);
}

/* call() is rack.hijack, call(headers) is rack.early_hints. */
static VALUE exchange_call(int argc, VALUE *argv, VALUE self) {
    Ticket *ticket = (Ticket *)rb_check_typeddata(self, &ticket_type);
    rb_check_arity(argc, 0, 1);
    if (argc == 1)
        return send_hints(ticket, argv[0]);
    if (ticket->forks != fork_count)
        rb_raise(rb_eIOError, "a client can only be answered by the process that received its request");
    if (!threads_have_lane())
        rb_raise(rb_eIOError, "the server has stopped");
    return hijack(self, ticket);
}

static VALUE exchange_inspect(VALUE self) {
    return rb_sprintf("#<%s>", rb_obj_classname(self));
}

void hijack_define(void) {
    rb_require("socket");
    socket_class = rb_path2class("Socket");
    tcp_class = rb_path2class("TCPSocket");
    unix_class = rb_path2class("UNIXSocket");
    rb_gc_register_mark_object(socket_class);
    rb_gc_register_mark_object(tcp_class);
    rb_gc_register_mark_object(unix_class);
    id_for_fd = rb_intern("for_fd");
    key_hijack_io = rb_enc_interned_str(LITERAL("rack.hijack_io"), rb_utf8_encoding());
    rb_gc_register_mark_object(key_hijack_io);
    exchange_class = rb_define_class_under(oribi_module, "Exchange", rb_cObject);
    rb_gc_register_mark_object(exchange_class);
    rb_undef_alloc_func(exchange_class);
    rb_undef_method(CLASS_OF(exchange_class), "new");
    rb_define_method(exchange_class, "call", exchange_call, -1);
    rb_define_method(exchange_class, "inspect", exchange_inspect, 0);
}

/* ---- Heads that the server does not write ------------------------------------------------------------------------------ */

static void append(VALUE text, oribi_bytes bytes) {
    rb_str_cat(text, bytes.data, (long)bytes.size);
}

static void check(const oribi_field *field) {
    const char *const name = field->name.data, *const value = field->value.data;
    for (size_t i = 0; i < field->name.size; i++)
        if (name[i] <= ' ' || name[i] == ':' || name[i] == 0x7f)
            rb_raise(response_error, "a header's name is invalid: %" PRIsVALUE,
                     rb_str_inspect(rb_str_new(name, (long)field->name.size)));
    for (size_t i = 0; i < field->value.size; i++)
        if (value[i] == '\0' || value[i] == '\r' || value[i] == '\n')
            rb_raise(response_error, "the header %.*s has a control byte in its value", (int)field->name.size, name);
}

static const char *reason(int status) {
    switch (status) {
    case 101:
        return "Switching Protocols";
    case 200:
        return "OK";
    default:
        /* The reason phrase may be empty (RFC 9112, section 4). */
        return "";
    }
}

static void upgrade_to(VALUE text, VALUE protocol) {
    const oribi_field field = {{"Upgrade", 7}, {RSTRING_PTR(protocol), (size_t)RSTRING_LEN(protocol)}};
    check(&field);
    rb_str_cat(text, "Upgrade: ", 9);
    append(text, field.value);
    rb_str_cat(text, "\r\n", 2);
}

/* The app takes over the connection after this head, so the head does not declare the framing of the content. */
static VALUE head_text(const Call *call) {
    const Head *head = &call->head;
    const bool upgrade = head->protocol != Qfalse || head->status == 101;
    const int status = upgrade ? 101 : head->status;
    bool has_connection = false, has_upgrade = false;
    VALUE text = rb_sprintf("HTTP/1.1 %d %s\r\n", status, reason(status));
    for (size_t i = 0; i < head->field_count; i++) {
        const oribi_field *field = &head->fields[i];
        check(field);
        has_connection |= field_is(field, "connection");
        has_upgrade |= field_is(field, "upgrade");
        append(text, field->name);
        rb_str_cat(text, ": ", 2);
        append(text, field->value);
        rb_str_cat(text, "\r\n", 2);
    }
    if (upgrade && !has_upgrade && head->protocol)
        upgrade_to(text, head->protocol);
    if (!has_connection)
        rb_str_cat_cstr(text, upgrade ? "Connection: Upgrade\r\n" : "Connection: close\r\n");
    rb_str_cat(text, "\r\n", 2);
    return text;
}

/* A socket that a callable gets after the head. */
typedef struct {
    VALUE io, text, callable;
    bool accepted; /* the callable has returned */
} Handover;

static VALUE hand_over(VALUE argument) {
    Handover *handover = (Handover *)argument;
    rb_io_write(handover->io, handover->text);
    rb_funcallv(handover->callable, names.call, 1, &handover->io);
    handover->accepted = true;
    return Qnil;
}

static void *break_off(void *descriptor) {
    return oribi_break_off(*(int *)descriptor) == 0 ? descriptor : NULL;
}

/* Resets the connection of a socket. An orderly end would mark the end of the content, because the head declares no length. */
static VALUE reset(VALUE io) {
    int descriptor;
    if (RTEST(rb_funcall(io, rb_intern("closed?"), 0)))
        return Qnil;
    descriptor = NUM2INT(rb_funcall(io, rb_intern("fileno"), 0));
    /* break_off() may wait until the client has read the bytes that were written. */
    while (rb_thread_call_without_gvl(break_off, &descriptor, RUBY_UBF_IO, NULL) == NULL)
        rb_thread_check_ints();
    rb_io_close(io);
    return Qnil;
}

static void reset_protected(VALUE io) {
    int state = 0;
    rb_protect(reset, io, &state);
    if (state)
        rb_set_errinfo(Qnil);
}

static VALUE give_up_unaccepted(VALUE argument) {
    const Handover *handover = (const Handover *)argument;
    /* A child of the app shares the socket with its parent. */
    if (!handover->accepted && !is_stray())
        reset_protected(handover->io);
    return Qnil;
}

void ticket_reset(VALUE self) {
    const Ticket *ticket = (const Ticket *)RTYPEDDATA_DATA(self);
    if (ticket->forks == fork_count && RTEST(ticket->io))
        reset_protected(ticket->io);
}

void hijack_respond(Call *call, VALUE callable) {
    Ticket *ticket = (Ticket *)RTYPEDDATA_DATA(call->ticket);
    Handover handover = {.text = head_text(call), .callable = callable};
    handover.io = take_socket(call_lane(call), call->exchange);
    RB_OBJ_WRITE(call->ticket, &ticket->io, handover.io);
    call->state = CALL_TAKEN;
    rb_ensure(hand_over, (VALUE)&handover, give_up_unaccepted, (VALUE)&handover);
}
