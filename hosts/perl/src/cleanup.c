/* cleanup.c - the work after a response that the app has requested in the environment: its cleanup handlers, and the end of the
 * interpreter (psgix.harakiri.commit).
 */
#include "perl_host.h"

/* Whether a value is true; never calls an object, because that might run code that dies. */
static bool is_true(pTHX_ SV *value) {
    return value && (SvROK(value) || (SvOK(value) && !SvGMAGICAL(value) && SvTRUE_nomg(value)));
}

AV *cleanup_handlers(pTHX_ Context *context, HV *environment) {
    SV *handlers = environment_value(aTHX_ &context->environment, environment, PSGIX_CLEANUP_HANDLERS);
    AV *list;
    if (!handlers || !SvROK(handlers) || SvTYPE(SvRV(handlers)) != SVt_PVAV)
        return NULL;
    list = (AV *)SvRV(handlers);
    return SvRMAGICAL(list) || AvFILLp(list) < 0 ? NULL : list;
}

bool cleanup_asks_for_end(pTHX_ Context *context, HV *environment) {
    return is_true(aTHX_ environment_value(aTHX_ &context->environment, environment, PSGIX_HARAKIRI_COMMIT));
}

void cleanup_before_response(pTHX_ Context *context, HV *environment) {
    if (cleanup_asks_for_end(aTHX_ context, environment)) {
        context->retiring = TRUE;
        oribi_retire(context->lane);
    }
}

void cleanup_finished(pTHX_ Context *context, HV *environment) {
    if (cleanup_asks_for_end(aTHX_ context, environment))
        context->retiring = TRUE;
    if (cleanup_handlers(aTHX_ context, environment)) {
        if (!context->deferred)
            context->deferred = newAV();
        av_push(context->deferred, newRV_inc((SV *)environment));
    }
}
