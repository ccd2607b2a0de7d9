/* errors.c - psgi.errors of a request that came through a web server: prints go to the error log of that web server.
 *
 * Each print is passed on separately. Prints after the request has been answered, from a forked process or from another thread
 * cannot be passed on: they go to STDERR, like psgi.errors of other requests.
 */
#include "perl_host.h"

typedef struct {
    PerlIOBuf base;
    Context *context; /* NULL in a copy in another thread */
    oribi_lane *lane;
    oribi_exchange exchange;
    unsigned forks;
} ErrorsLayer;

static void report(pTHX_ const ErrorsLayer *layer, const char *text, size_t size) {
    if (layer->context && layer->forks == forks_count() && !layer->context->closing
        && oribi_report(layer->lane, layer->exchange, text, size))
        return;
    PerlIO_write(PerlIO_stderr(), text, size);
    PerlIO_flush(PerlIO_stderr());
}

static IV errors_flush(pTHX_ PerlIO *handle) {
    ErrorsLayer *layer = PerlIOSelf(handle, ErrorsLayer);
    PerlIOBuf *buffer = &layer->base;
    const STDCHAR *end = buffer->ptr;
    buffer->ptr = buffer->end = buffer->buf;
    PerlIOBase(handle)->flags &= ~(PERLIO_F_RDBUF | PERLIO_F_WRBUF);
    if (end > buffer->buf)
        report(aTHX_ layer, (const char *)buffer->buf, (size_t)(end - buffer->buf));
    return 0;
}

static IV errors_fileno(pTHX_ PerlIO *handle) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(handle);
    errno = EBADF;
    return -1;
}

static PERLIO_FUNCS_DECL(errors_layer) = {
    .fsize = sizeof(PerlIO_funcs),
    .name = "oribi_errors",
    .size = sizeof(ErrorsLayer),
    .kind = PERLIO_K_BUFFERED,
    .Pushed = PerlIOBuf_pushed,
    .Popped = PerlIOBuf_popped,
    .Binmode = PerlIOBase_binmode,
    .Fileno = errors_fileno,
    .Dup = PerlIOBuf_dup,
    .Write = PerlIOBuf_write,
    .Seek = layer_seek,
    .Tell = layer_tell,
    .Close = PerlIOBuf_close,
    .Flush = errors_flush,
    .Eof = PerlIOBase_eof,
    .Error = PerlIOBase_error,
    .Clearerr = PerlIOBase_clearerr,
    .Setlinebuf = PerlIOBase_setlinebuf,
    .Get_base = PerlIOBuf_get_base,
    .Get_bufsiz = PerlIOBuf_bufsiz,
};

void errors_define(pTHX) {
    PerlIO_define_layer(aTHX_ PERLIO_FUNCS_CAST(&errors_layer));
}

static void bind_layer(Context *context, PerlIO *handle) {
    ErrorsLayer *layer = PerlIOSelf(handle, ErrorsLayer);
    layer->context = context;
    layer->lane = context->lane;
    layer->exchange = context->exchange;
    layer->forks = context->forks;
}

SV *errors_new(pTHX_ Context *context) {
    GV *glob = (GV *)newSV(0);
    SV *reference = newRV_noinc((SV *)glob);
    PerlIO *handle;
    IO *io;
    gv_init_pvn(glob, gv_stashpvs("Oribi::Errors", GV_ADD), "errors", 6, 0);
    io = GvIOn(glob);
    handle = PerlIO_allocate(aTHX);
    if (handle && PerlIO_push(aTHX_ handle, PERLIO_FUNCS_CAST(&errors_layer), "w", NULL)) {
        PerlIOBase(handle)->flags |= PERLIO_F_OPEN;
        bind_layer(context, handle);
        IoIFP(io) = IoOFP(io) = handle;
        IoTYPE(io) = IoTYPE_WRONLY;
        /* One print is one message. */
        IoFLAGS(io) |= IOf_FLUSH;
    }
    return reference;
}

bool errors_is_pristine(pTHX_ const Environment *environment, SV *glob) {
    PerlIO *handle;
    IO *io;
    if (!handle_is_private(environment, glob) || SvOBJECT(glob))
        return FALSE;
    io = GvIOp((GV *)glob);
    handle = IoOFP(io);
    if (!PerlIOValid(handle) || handle != IoIFP(io) || PerlIOBase(handle)->tab != &errors_layer
        || PerlIOBase(handle)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF) || !(IoFLAGS(io) & IOf_FLUSH))
        return FALSE;
    errors_flush(aTHX_ handle);
    return TRUE;
}

void errors_rebind(Context *context, SV *glob) {
    bind_layer(context, IoOFP(GvIOp((GV *)glob)));
}
