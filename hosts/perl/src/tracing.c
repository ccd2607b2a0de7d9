/* tracing.c - backtraces of apps.
 *
 * A request for backtraces arrives in a signal handler, where Perl code must not run, like an order to an app that takes too
 * long (interruption.c). The handler marks all contexts that answer, and sets the flag by which Perl knows that signals have
 * arrived. Between two Perl operations each of their threads then walks its own stacks. That runs no Perl code, so the app
 * cannot notice it.
 *
 * A worker with a single thread gets no request while the thread waits in a system call: see oribi_host.trace_unnoticed. In a
 * worker with several threads, the first thread gets the signal. It runs no app, so the signal disturbs none.
 */
#include "perl_host.h"
#include <sched.h>
#include <stdatomic.h>

/* The most contexts that threads use at the same time: as many as a worker may have threads, and the clones that are about to
 * replace others. A signal handler may read the contexts at any moment. */
#define MOST_CONTEXTS 2048
static _Atomic(Context *) contexts[MOST_CONTEXTS];
static atomic_size_t used_contexts;
/* The number of handlers that are reading the contexts. */
static atomic_int readers;

/* ---- In the signal handler ----------------------------------------------------------------------------------------------- */

void tracing_ask(void *data, uint32_t question) {
    uint32_t threads = 0;
    UNUSED_ARGUMENT(data);
    atomic_fetch_add(&readers, 1);
    for (size_t i = 0; i < atomic_load(&used_contexts); i++) {
        Context *context = atomic_load(&contexts[i]);
        if (context && context->answering) {
            dCONTEXT_PERL(context);
            PERL_UNUSED_CONTEXT;
            context->question = question;
            PL_sig_pending = 1;
            /* The app may have returned to the server before Perl checks the flag. */
            if (context->waker)
                oribi_wake(context->waker);
            threads++;
        }
    }
    atomic_fetch_sub(&readers, 1);
    oribi_trace_expect(question, threads);
}

void tracing_enter(Context *context) {
    for (size_t i = 0; i < MOST_CONTEXTS; i++) {
        Context *none = NULL;
        if (atomic_compare_exchange_strong(&contexts[i], &none, context)) {
            size_t used = atomic_load(&used_contexts);
            while (used <= i && !atomic_compare_exchange_weak(&used_contexts, &used, i + 1)) {
            }
            return;
        }
    }
}

void tracing_leave(Context *context) {
    for (size_t i = 0; i < atomic_load(&used_contexts); i++) {
        Context *own = context;
        if (atomic_compare_exchange_strong(&contexts[i], &own, NULL))
            break;
    }
    /* A handler on this thread has returned by now; a handler on another thread returns soon. */
    while (atomic_load(&readers) > 0)
        sched_yield();
}

/* ---- Between two operations ---------------------------------------------------------------------------------------------- */

/* Whether a package was made for an app file without a `package` statement. Plack derives the name of such a package from that
 * of the file, so the name is long and adds no information. */
static bool stands_for_file(const HV *package) {
    static const char *const parents[] = {"Plack::Sandbox::", "Oribi::Sandbox"};
    const char *name = package ? HvNAME_get(package) : NULL;
    for (size_t i = 0; name && i < C_ARRAY_LENGTH(parents); i++) {
        const size_t size = strlen(parents[i]);
        if (strncmp(name, parents[i], size) == 0 && !strstr(name + size, "::"))
            return true;
    }
    return false;
}

/* Returns the text of a frame: "file:line in Package::name", without the last part if it is unknown. */
static SV *frame(pTHX_ const COP *place, const CV *sub, bool evaluates) {
    const char *file = place ? CopFILE(place) : NULL;
    SV *text = newSVpvf("%s:%lu", file ? file : "?", place ? (unsigned long)CopLINE(place) : 0);
    sv_2mortal(text);
    if (evaluates) {
        sv_catpvs(text, " in (eval)");
    } else if (sub) {
        GV *name = CvGV((CV *)sub);
        if (name && isGV(name)) {
            SV *full = sv_newmortal();
            sv_catpvs(text, " in ");
            if (stands_for_file(GvSTASH(name))) {
                sv_setpvn(full, GvNAME(name), GvNAMELEN(name));
                sv_catpvs(text, "main::");
            } else {
                gv_efullname4(full, name, NULL, TRUE);
            }
            sv_catsv(text, full);
        }
    }
    return text;
}

typedef struct {
    oribi_bytes frames[100];
    size_t count, more;
} Frames;

static void add(pTHX_ Frames *frames, const COP *place, const CV *sub, bool evaluates) {
    SV *text;
    STRLEN size;
    if (frames->count == C_ARRAY_LENGTH(frames->frames)) {
        frames->more++;
        return;
    }
    text = frame(aTHX_ place, sub, evaluates);
    frames->frames[frames->count].data = SvPV_const(text, size);
    frames->frames[frames->count++].size = size;
}

/* Collects the frames, from the innermost one to the sub that the server has called. */
static void walk(pTHX_ const Context *context, Frames *frames) {
    const COP *place = PL_curcop;
    for (const PERL_SI *stack = PL_curstackinfo; stack && stack != context->outside; stack = stack->si_prev)
        for (I32 i = stack->si_cxix; i >= 0; i--) {
            const PERL_CONTEXT *frame = &stack->si_cxstack[i];
            const U32 type = CxTYPE(frame);
            if (type != CXt_SUB && type != CXt_FORMAT && type != CXt_EVAL)
                continue;
            /* The frame of the server's own `eval {}` around its call is not the app's. */
            if (type == CXt_EVAL && i == 0 && stack->si_prev == context->outside)
                continue;
            add(aTHX_ frames, place, type == CXt_SUB ? frame->blk_sub.cv : NULL, type == CXt_EVAL);
            place = frame->blk_oldcop;
        }
    if (frames->count == 0)
        add(aTHX_ frames, place, NULL, FALSE);
}

void tracing_answer(pTHX_ Context *context) {
    const uint32_t question = context->question;
    const oribi_bytes nothing = {"", 0};
    context->question = 0;
    if (context->answering && PL_curstackinfo != context->outside) {
        Frames frames = {.count = 0, .more = 0};
        oribi_bytes about;
        SV *line;
        dSAVE_ERRNO;
        ENTER;
        SAVETMPS;
        line = app_log_line(aTHX_ context->present);
        about.data = SvPVX_const(line);
        about.size = SvCUR(line) > 2 ? SvCUR(line) - 2 : 0;
        walk(aTHX_ context, &frames);
        oribi_trace_tell(question, 0, about, frames.frames, frames.count, frames.more);
        FREETMPS;
        LEAVE;
        RESTORE_ERRNO;
    } else {
        oribi_trace_tell(question, 0, nothing, NULL, 0, 0);
    }
}
