/* input.c - psgi.input, and oribi.data for a filter: a real PerlIO handle over the content of a request. */
#include "perl_host.h"
#include <fcntl.h>
#include <unistd.h>

/* The layer of a handle without content: a `scalar` layer over an empty string, under another name. By the name this file
 * recognizes a handle in which the app has not opened something else. */
static PerlIO_funcs nothing_layer;
static PerlIO_funcs *scalar;

void input_define(pTHX) {
    scalar = PerlIO_find_layer(aTHX_ "scalar", 6, 1);
    if (!scalar)
        croak("PerlIO::scalar cannot be loaded");
    nothing_layer = *scalar;
    nothing_layer.name = "oribi_nothing";
}

/* Makes a handle that reads bytes from a string, without the layers that `open` adds: the environment (PERLIO) and the app may
 * choose those. */
static PerlIO *open_string(pTHX_ PerlIO_funcs *layer, SV *string) {
    SV *source = sv_2mortal(newRV_noinc(string));
    PerlIO *handle = PerlIO_allocate(aTHX);
    if (handle && PerlIO_push(aTHX_ handle, layer, "r", source))
        PerlIOBase(handle)->flags |= PERLIO_F_OPEN;
    return handle;
}

/* An anonymous glob in no symbol table, like that of `open my $handle`. */
static GV *new_handle(pTHX) {
    GV *glob = (GV *)newSV(0);
    gv_init_pvn(glob, gv_stashpvs("Oribi::Input", GV_ADD), "input", 5, 0);
    GvIOn(glob);
    return glob;
}

/* Opens a handle over a duplicate of the descriptor, at the start of the file. NULL if the system refused, for instance because
 * no descriptor is left. */
static PerlIO *open_file(pTHX_ int content_file) {
    PerlIO *handle;
    int file = fcntl(content_file, F_DUPFD_CLOEXEC, 3);
    if (file < 0)
        return NULL;
    if (lseek(file, 0, SEEK_SET) != 0 || !(handle = PerlIO_openn(aTHX_ RAW_LAYERS, "r", file, 0, 0, NULL, 0, NULL))) {
        close(file);
        return NULL;
    }
    return handle;
}

/* Copies the content into a scalar. The scalar of the last request is reused if no handle reads from it any more: otherwise the
 * kernel would have to clear fresh pages, which takes longer than the copy. The server limits the size of content in memory. */
static SV *copy_in_memory(pTHX_ Environment *environment, const oribi_content *from) {
    SV *content = environment->content;
    if (content && SvREFCNT(content) == 1 && SvTYPE(content) == SVt_PV && !SvIsCOW(content) && !SvREADONLY(content)) {
        sv_setpvn(content, from->memory, (STRLEN)from->size);
        SvUTF8_off(content);
    } else {
        SvREFCNT_dec(content);
        content = environment->content = newSVpvn(from->memory, (STRLEN)from->size);
    }
    return SvREFCNT_inc_simple_NN(content);
}

SV *input_new(pTHX_ Environment *environment, const oribi_content *from) {
    GV *glob = new_handle(aTHX);
    SV *reference = newRV_noinc((SV *)glob);
    IO *io = GvIOp(glob);
    if (from->size == 0) {
        IoIFP(io) = open_string(aTHX_ &nothing_layer, newSVpvs(""));
        IoTYPE(io) = IoTYPE_RDONLY;
    } else if (from->file >= 0) {
        PerlIO *handle = open_file(aTHX_ from->file);
        if (!handle)
            app_log(aTHX_ environment->hash, ORIBI_LOG_ERROR, "the content cannot be opened: %s", strerror(errno));
        IoIFP(io) = handle;
        IoTYPE(io) = IoTYPE_RDONLY;
    } else {
        IoIFP(io) = open_string(aTHX_ scalar, copy_in_memory(aTHX_ environment, from));
        IoTYPE(io) = IoTYPE_RDONLY;
    }
    return reference;
}

bool input_is_pristine(pTHX_ const Environment *environment, SV *glob) {
    PerlIO *handle;
    IO *io;
    if (!handle_is_private(environment, glob) || SvOBJECT(glob))
        return FALSE;
    io = GvIOp((GV *)glob);
    handle = IoIFP(io);
    /* Unchanged: nothing was opened in its place, no layer or byte was pushed, and its position is the start. */
    return PerlIOValid(handle) && !IoOFP(io) && PerlIOBase(handle)->tab == &nothing_layer && !PerlIOBase(handle)->next
           && !(PerlIOBase(handle)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF | PERLIO_F_ERROR)) && PerlIO_tell(handle) == 0;
}
