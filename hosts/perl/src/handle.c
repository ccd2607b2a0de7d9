/* handle.c - handles that an app may have used. */
#include "perl_host.h"

bool handle_is_private(const Environment *environment, SV *value) {
    GV *glob = (GV *)value;
    IO *io;
    if (SvTYPE(value) != SVt_PVGV || SvREFCNT(value) != 1 || SvMAGIC(value) || !isGV_with_GP(glob) || GvREFCNT(glob) != 1)
        return FALSE;
    io = GvIOp(glob);
    if (!io || SvREFCNT(io) != 1 || SvMAGIC(io) || SvSTASH(io) != environment->handle_stash || IoLINES(io) != 0)
        return FALSE;
    /* Modules keep state in the other slots of a handle's glob; that state belongs to one client. */
    return !GvHV(glob) && !GvAV(glob) && !GvCV(glob) && !GvFORM(glob) && (!GvSV(glob) || !SvOK(GvSV(glob)));
}
