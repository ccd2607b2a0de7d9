/* socket.c - psgix.io: the client's socket, taken over when it is first used.
 *
 * Every request's environment has a psgix.io, but hardly any app uses it, and a connection whose socket has been taken over
 * serves no further request. So the handle is a real IO::Socket over a PerlIO layer of our own that is not bound yet. Asking
 * for its descriptor, reading or writing takes the socket over; looking at the handle, or copying the environment, does not.
 */
#include "perl_host.h"
#include <unistd.h>

typedef struct {
    struct _PerlIO base;
    Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    unsigned forks;
    const char *class_name; /* what class_of() said when the handle was made */
    bool taken;     /* it has been tried; `reader` and `writer` are NULL when that failed */
    bool spoken;    /* it was noted that the app speaks for itself */
    PerlIO *reader; /* two buffers over one descriptor: a socket is two streams */
    PerlIO *writer;
} SocketLayer;

bool socket_is_taken(const Context *context, oribi_exchange exchange) {
    for (U32 i = 0; UNLIKELY(i < context->taken_count); i++)
        if (context->taken[i] == exchange)
            return TRUE;
    return FALSE;
}

void socket_forget(Context *context, oribi_exchange exchange) {
    for (U32 i = 0; UNLIKELY(i < context->taken_count); i++)
        if (context->taken[i] == exchange)
            context->taken[i] = context->taken[--context->taken_count];
}

void socket_drop(pTHX_ Context *context, oribi_exchange exchange, const char *what) {
    call_log(aTHX_ NULL, ORIBI_LOG_DEBUG, "the app has used psgix.io, so %s was dropped", what);
    oribi_abandon(context->lane, exchange);
    socket_forget(context, exchange);
}

/* An operation that only asks for an address or sets an option is no use of the connection: the app's answer is still sent. */
static bool only_asks(pTHX) {
    switch (PL_op ? PL_op->op_type : OP_NULL) {
    case OP_GETPEERNAME:
    case OP_GETSOCKNAME:
    case OP_GSOCKOPT:
    case OP_SSOCKOPT:
        return TRUE;
    default:
        return FALSE;
    }
}

/* From now on the app uses the connection itself. */
static void speak(SocketLayer *layer) {
    Context *context = layer->context;
    if (layer->spoken || layer->forks != process_forks() || context->closing)
        return;
    layer->spoken = TRUE;
    /* If the app has only asked before, the exchange may be over by now. */
    if (oribi_has_gone(layer->lane, layer->exchange))
        return;
    if (context->taken_count == context->taken_room) {
        context->taken_room = 2 * context->taken_room + 4;
        Renew(context->taken, context->taken_room, oribi_exchange);
    }
    context->taken[context->taken_count++] = layer->exchange;
}

static bool take(pTHX_ PerlIO *handle) {
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    int file, copy;
    if (layer->taken)
        return layer->reader != NULL;
    layer->taken = TRUE;
    errno = ENOTCONN;
    if (layer->forks != process_forks() || layer->context->closing)
        return FALSE;
    file = oribi_take_socket(layer->lane, layer->exchange);
    if (file < 0) {
        errno = ENOTCONN;
        return FALSE;
    }
    /* PerlIO counts the handles of a descriptor and closes it with the last. */
    copy = file;
    layer->reader = PerlIO_fdopen(file, "r");
    layer->writer = layer->reader ? PerlIO_fdopen(copy, "w") : NULL;
    if (!layer->writer) {
        if (layer->reader)
            PerlIO_close(layer->reader);
        else
            close(file);
        layer->reader = NULL;
        return FALSE;
    }
    return TRUE;
}

static PerlIO *reader_of(pTHX_ PerlIO *handle) {
    if (!take(aTHX_ handle))
        return NULL;
    speak(PerlIOSelf(handle, SocketLayer));
    return PerlIOSelf(handle, SocketLayer)->reader;
}

static IV socket_fileno(pTHX_ PerlIO *handle) {
    PerlIO *reader = only_asks(aTHX) && take(aTHX_ handle) ? PerlIOSelf(handle, SocketLayer)->reader : reader_of(aTHX_ handle);
    return reader ? PerlIO_fileno(reader) : -1;
}

static SSize_t socket_read(pTHX_ PerlIO *handle, void *buffer, Size_t size) {
    PerlIO *reader = reader_of(aTHX_ handle);
    SSize_t got = reader ? PerlIO_read(reader, buffer, size) : -1;
    if (got < 0)
        PerlIOBase(handle)->flags |= PERLIO_F_ERROR;
    else if (got == 0 && size > 0)
        PerlIOBase(handle)->flags |= PERLIO_F_EOF;
    return got;
}

static SSize_t socket_unread(pTHX_ PerlIO *handle, const void *bytes, Size_t size) {
    PerlIO *reader = reader_of(aTHX_ handle);
    return reader ? PerlIO_unread(reader, bytes, size) : 0;
}

static SSize_t socket_write(pTHX_ PerlIO *handle, const void *bytes, Size_t size) {
    SSize_t written = -1;
    if (take(aTHX_ handle)) {
        PerlIO *writer = PerlIOSelf(handle, SocketLayer)->writer;
        speak(PerlIOSelf(handle, SocketLayer));
        written = PerlIO_write(writer, bytes, size);
        if (written >= 0 && PerlIO_flush(writer) != 0)
            written = -1;
    }
    if (written < 0)
        PerlIOBase(handle)->flags |= PERLIO_F_ERROR;
    return written;
}

static IV socket_flush(pTHX_ PerlIO *handle) {
    /* Perl flushes every handle before it forks; that must not take the socket over. */
    PerlIO *writer = PerlIOValid(handle) ? PerlIOSelf(handle, SocketLayer)->writer : NULL;
    return writer ? PerlIO_flush(writer) : 0;
}

static IV socket_popped(pTHX_ PerlIO *handle) {
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    PerlIO *reader = layer->reader, *writer = layer->writer;
    layer->reader = layer->writer = NULL;
    layer->taken = TRUE;
    if (writer)
        PerlIO_close(writer);
    if (reader)
        PerlIO_close(reader);
    return 0;
}

static IV socket_close(pTHX_ PerlIO *handle) {
    socket_popped(aTHX_ handle);
    PerlIOBase(handle)->flags &= ~(PERLIO_F_CANREAD | PERLIO_F_CANWRITE | PERLIO_F_OPEN);
    return 0;
}

/* A thread that the app starts does not inherit the connection. */
static PerlIO *socket_dup(pTHX_ PerlIO *handle, PerlIO *original, CLONE_PARAMS *parameters, int flags) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(handle);
    UNUSED_ARGUMENT(original);
    UNUSED_ARGUMENT(parameters);
    UNUSED_ARGUMENT(flags);
    errno = EBADF;
    return NULL;
}

static PERLIO_FUNCS_DECL(socket_layer) = {
    .fsize = sizeof(PerlIO_funcs),
    .name = "oribi_socket",
    .size = sizeof(SocketLayer),
    .kind = PERLIO_K_RAW,
    .Pushed = PerlIOBase_pushed,
    .Popped = socket_popped,
    .Binmode = PerlIOBase_binmode,
    .Fileno = socket_fileno,
    .Dup = socket_dup,
    .Read = socket_read,
    .Unread = socket_unread,
    .Write = socket_write,
    .Seek = layer_seek,
    .Tell = layer_tell,
    .Close = socket_close,
    .Flush = socket_flush,
    .Eof = PerlIOBase_eof,
    .Error = PerlIOBase_error,
    .Clearerr = PerlIOBase_clearerr,
    .Setlinebuf = PerlIOBase_setlinebuf,
};

void socket_define(pTHX) {
    PerlIO_define_layer(aTHX_ PERLIO_FUNCS_CAST(&socket_layer));
}

/* The class whose peerhost and similar methods understand this connection's addresses. */
static const char *class_of(const oribi_request *request) {
    const oribi_bytes address = request->variables[ORIBI_REMOTE_ADDR].value;
    const oribi_bytes port = request->variables[ORIBI_REMOTE_PORT].value;
    /* The peer of a Unix socket has an address, because some apps expect one, but no port. */
    if (port.size == 0 || (port.size == 1 && *port.data == '0'))
        return "IO::Socket::UNIX";
    return memchr(address.data, ':', address.size) ? "IO::Socket::IP" : "IO::Socket::INET";
}

static void bind_layer(Context *context, PerlIO *handle) {
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    layer->context = context;
    layer->lane = context->lane;
    layer->exchange = context->exchange;
    layer->forks = context->forks;
}

SV *socket_new(pTHX_ Context *context, const oribi_request *request) {
    GV *glob = (GV *)newSV(0);
    SV *reference = newRV_noinc((SV *)glob);
    PerlIO *handle;
    IO *io;
    HV *stash = gv_stashpv(class_of(request), GV_ADD);
    gv_init_pvn(glob, stash, "io", 2, 0);
    io = GvIOn(glob);
    handle = PerlIO_allocate(aTHX);
    if (handle && PerlIO_push(aTHX_ handle, PERLIO_FUNCS_CAST(&socket_layer), "r+", NULL)) {
        PerlIOBase(handle)->flags |= PERLIO_F_OPEN;
        PerlIOSelf(handle, SocketLayer)->class_name = class_of(request);
        bind_layer(context, handle);
        IoIFP(io) = IoOFP(io) = handle;
        IoTYPE(io) = IoTYPE_SOCKET;
        IoFLAGS(io) |= IOf_FLUSH;
    }
    return sv_bless(reference, stash);
}

bool socket_is_pristine(const Environment *environment, SV *glob) {
    PerlIO *handle;
    IO *io;
    if (!handle_is_private(environment, glob) || SvSTASH(glob) != GvSTASH((GV *)glob))
        return FALSE;
    io = GvIOp((GV *)glob);
    handle = IoIFP(io);
    return PerlIOValid(handle) && handle == IoOFP(io) && PerlIOBase(handle)->tab == &socket_layer
           && !(PerlIOBase(handle)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF | PERLIO_F_EOF | PERLIO_F_ERROR))
           && !PerlIOSelf(handle, SocketLayer)->taken;
}

bool socket_rebind(Context *context, const oribi_request *request, SV *glob) {
    PerlIO *handle = IoIFP(GvIOp((GV *)glob));
    if (PerlIOSelf(handle, SocketLayer)->class_name != class_of(request))
        return FALSE;
    bind_layer(context, handle);
    return TRUE;
}
