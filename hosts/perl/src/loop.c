/* loop.c - runs the event loop that the app uses, one round at a time: see Oribi::Loop. */
#include "perl_host.h"

static bool call(pTHX_ const char *function, SV *argument) {
    CV *code = get_cv(function, 0);
    if (code && protected_call(aTHX_ (SV *)code, argument))
        return TRUE;
    app_log_error(aTHX_ NULL, "a callback in the event loop died");
    return FALSE;
}

void loop_run(pTHX_ Context *context, int descriptor, int64_t milliseconds) {
    ENTER;
    SAVETMPS;
    if (descriptor != context->loop_file) {
        context->loop_file = descriptor;
        call(aTHX_ "Oribi::Loop::watch", sv_2mortal(newSViv(descriptor)));
    }
    if (UNLIKELY(!context->stop_noted && oribi_stops(context->lane))) {
        context->stop_noted = TRUE;
        call(aTHX_ "Oribi::Loop::note_stop", &PL_sv_undef);
        /* It may have ended responses, so that the lane has something to do. */
        milliseconds = 0;
    }
    if (context->wanting > 0 && observing_call(aTHX_ context))
        milliseconds = 0;
    call(aTHX_ "Oribi::Loop::come_round", milliseconds < 0 ? &PL_sv_undef : sv_2mortal(newSVnv((NV)milliseconds / 1000)));
    FREETMPS;
    LEAVE;
}
