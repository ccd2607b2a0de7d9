/* socket.c - psgix.io: the client's socket, hijacked when it is first used.
 *
 * Every request's environment has a psgix.io, but hardly any app uses it, and a connection whose socket has been hijacked
 * serves no further request. So the handle is an IO::Socket over a PerlIO layer of this file that has no socket yet. Reading,
 * writing, or asking the handle for its descriptor hijacks the socket; looking at the handle itself, or copying the
 * environment, does not.
 *
 * The app may use the descriptor without this file noticing, but mostly only inspects the socket: by select, stat, MSG_PEEK. So
 * the app's answer is dropped only if bytes were read or written since the socket was hijacked, or if the app has closed it.
 */
#include "perl_host.h"
#include <fcntl.h>
#include <unistd.h>

typedef struct {
    struct _PerlIO base;
    Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    unsigned forks;
    const char *class_name; /* the result of class_of() when the handle was made */
    bool taken;     /* hijacking has been tried; `reader` and `writer` are NULL when that failed */
    bool spoken;    /* bytes were read or written, as far as the handle knows */
    Position start; /* the position of the socket when it was hijacked */
    PerlIO *reader; /* two buffers over one descriptor: a socket is two streams */
    PerlIO *writer;
} SocketLayer;

struct TakenSocket {
    oribi_exchange exchange;
    const SocketLayer *layer; /* NULL after the handle was closed */
    bool used;                /* the app uses the socket itself */
    bool server_writes;       /* bytes that were written may be the server's */
};

static struct TakenSocket *find(const Context *context, oribi_exchange exchange) {
    for (U32 i = 0; UNLIKELY(i < context->taken_count); i++)
        if (context->taken[i].exchange == exchange)
            return &context->taken[i];
    return NULL;
}

static bool has_moved(pTHX_ const SocketLayer *layer, bool server_writes) {
    Position now;
    if (layer->spoken || !layer->reader)
        return layer->spoken;
    now = position_of(PerlIO_fileno(layer->reader));
    return now.read > layer->start.read || (now.written > layer->start.written && !server_writes);
}

bool socket_is_taken(const Context *context, oribi_exchange exchange) {
    return find(context, exchange) != NULL;
}

bool socket_is_used(pTHX_ const Context *context, oribi_exchange exchange) {
    struct TakenSocket *socket = find(context, exchange);
    if (LIKELY(!socket))
        return FALSE;
    if (!socket->used && socket->layer)
        socket->used = has_moved(aTHX_ socket->layer, socket->server_writes);
    return socket->used;
}

void socket_note_output(const Context *context, oribi_exchange exchange) {
    struct TakenSocket *socket = find(context, exchange);
    if (socket)
        socket->server_writes = TRUE;
}

void socket_forget(Context *context, oribi_exchange exchange) {
    struct TakenSocket *socket = find(context, exchange);
    if (UNLIKELY(socket != NULL))
        *socket = context->taken[--context->taken_count];
}

void socket_drop(pTHX_ Context *context, oribi_exchange exchange, HV *environment, const char *what) {
    app_log(aTHX_ environment, ORIBI_LOG_WARN, "the app has read from psgix.io, written to it or closed it, so %s was dropped",
            what);
    oribi_abandon(context->lane, exchange);
    socket_forget(context, exchange);
}

void socket_give_up(pTHX_ Context *context, oribi_lane *lane, oribi_exchange exchange) {
    /* oribi_abandon() would close a connection whose socket is hijacked without an answer. */
    if (UNLIKELY(socket_is_taken(context, exchange)) && !socket_is_used(aTHX_ context, exchange))
        oribi_fail(lane, exchange, 500);
    else
        oribi_abandon(lane, exchange);
}

/* Whether the current Perl operation reads from the descriptor or writes to it. `recv` does not count: it may only look
 * (MSG_PEEK). */
static bool reads_or_writes(pTHX) {
    switch (PL_op ? PL_op->op_type : OP_NULL) {
    case OP_SYSREAD:
    case OP_READ:
    case OP_SYSWRITE:
    case OP_SEND:
        return TRUE;
    default:
        return FALSE;
    }
}

static void note_taken(Context *context, const SocketLayer *layer) {
    if (context->taken_count == context->taken_room) {
        context->taken_room = 2 * context->taken_room + 4;
        Renew(context->taken, context->taken_room, struct TakenSocket);
    }
    context->taken[context->taken_count++] = (struct TakenSocket){.exchange = layer->exchange, .layer = layer};
}

static bool take(pTHX_ PerlIO *handle) {
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    int file, copy;
    if (layer->taken)
        return layer->reader != NULL;
    layer->taken = TRUE;
    errno = ENOTCONN;
    if (layer->forks != forks_count() || layer->context->closing)
        return FALSE;
    file = oribi_take_socket(layer->lane, layer->exchange);
    if (file < 0) {
        errno = ENOTCONN;
        return FALSE;
    }
    layer->start = position_of(file);
    note_taken(layer->context, layer);
    /* PerlIO counts the handles of a descriptor, and closes the descriptor with the last one. */
    copy = file;
    layer->reader = PerlIO_openn(aTHX_ RAW_LAYERS, "r", file, 0, 0, NULL, 0, NULL);
    layer->writer = layer->reader ? PerlIO_openn(aTHX_ RAW_LAYERS, "w", copy, 0, 0, NULL, 0, NULL) : NULL;
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
    return take(aTHX_ handle) ? PerlIOSelf(handle, SocketLayer)->reader : NULL;
}

static IV socket_fileno(pTHX_ PerlIO *handle) {
    PerlIO *reader = reader_of(aTHX_ handle);
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    if (!reader)
        return -1;
    /* For a socket that counts its bytes, comparing the counts is more exact. */
    if (!layer->start.exact && reads_or_writes(aTHX))
        layer->spoken = TRUE;
    return PerlIO_fileno(reader);
}

static SSize_t socket_read(pTHX_ PerlIO *handle, void *buffer, Size_t size) {
    PerlIO *reader = reader_of(aTHX_ handle);
    SSize_t got = reader ? PerlIO_read(reader, buffer, size) : -1;
    if (got < 0)
        PerlIOBase(handle)->flags |= PERLIO_F_ERROR;
    else if (got == 0 && size > 0)
        PerlIOBase(handle)->flags |= PERLIO_F_EOF;
    else
        PerlIOSelf(handle, SocketLayer)->spoken = TRUE;
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
        if (size > 0)
            PerlIOSelf(handle, SocketLayer)->spoken = TRUE;
        written = PerlIO_write(writer, bytes, size);
        if (written >= 0 && PerlIO_flush(writer) != 0)
            written = -1;
    }
    if (written < 0)
        PerlIOBase(handle)->flags |= PERLIO_F_ERROR;
    return written;
}

static IV socket_flush(pTHX_ PerlIO *handle) {
    /* Perl flushes every handle before it forks; that must not hijack the socket. */
    PerlIO *writer = PerlIOValid(handle) ? PerlIOSelf(handle, SocketLayer)->writer : NULL;
    return writer ? PerlIO_flush(writer) : 0;
}

static IV socket_popped(pTHX_ PerlIO *handle) {
    SocketLayer *layer = PerlIOSelf(handle, SocketLayer);
    PerlIO *reader = layer->reader, *writer = layer->writer;
    struct TakenSocket *socket = reader && layer->forks == forks_count() ? find(layer->context, layer->exchange) : NULL;
    if (socket && socket->layer == layer) {
        socket->used = socket->used || has_moved(aTHX_ layer, socket->server_writes);
        socket->layer = NULL;
    }
    layer->reader = layer->writer = NULL;
    layer->taken = TRUE;
    if (writer)
        PerlIO_close(writer);
    if (reader)
        PerlIO_close(reader);
    return 0;
}

static IV socket_close(pTHX_ PerlIO *handle) {
    /* An app that closes the client's socket wants its connection to end. Freeing a handle also closes it. */
    if (PL_op && PL_op->op_type == OP_CLOSE && take(aTHX_ handle))
        PerlIOSelf(handle, SocketLayer)->spoken = TRUE;
    socket_popped(aTHX_ handle);
    PerlIOBase(handle)->flags &= ~(PERLIO_F_CANREAD | PERLIO_F_CANWRITE | PERLIO_F_OPEN);
    return 0;
}

/* Makes a handle for `open '+<&', $io`. A thread that the app starts does not inherit the connection. */
static PerlIO *socket_dup(pTHX_ PerlIO *handle, PerlIO *original, CLONE_PARAMS *parameters, int flags) {
    PerlIO *reader = flags & PERLIO_DUP_CLONE ? NULL : reader_of(aTHX_ original);
    int file;
    UNUSED_ARGUMENT(parameters);
    errno = EBADF;
    file = reader ? PerlIO_fileno(reader) : -1;
    if (file >= 0 && flags & PERLIO_DUP_FD)
        file = fcntl(file, F_DUPFD_CLOEXEC, 3);
    return file < 0 ? NULL : PerlIO_openn(aTHX_ NULL, "r+", file, 0, 0, handle, 0, NULL);
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

/* Returns the class whose peerhost and similar methods understand the addresses of this connection. */
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
