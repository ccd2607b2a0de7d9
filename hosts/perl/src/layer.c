/* layer.c - the common part of PerlIO layers that lead to no file: they have no position. */
#include "perl_host.h"

IV layer_seek(pTHX_ PerlIO *handle, Off_t offset, int whence) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(handle);
    UNUSED_ARGUMENT(offset);
    UNUSED_ARGUMENT(whence);
    errno = ESPIPE;
    return -1;
}

Off_t layer_tell(pTHX_ PerlIO *handle) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(handle);
    errno = ESPIPE;
    return -1;
}
