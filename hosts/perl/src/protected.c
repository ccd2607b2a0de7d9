/* protected.c - calls code of the app, and reads the bytes of the app's values, which may call code of the app.
 *
 * G_EVAL catches `die` at each call. A call of `exit` unwinds the whole interpreter: the functions that the server calls catch
 * it (call.c, process.c).
 *
 * An app may return anything: objects that overload "", strings in Perl's wide representation, undef. Reading a plain byte
 * string, the common case, costs two comparisons.
 */
#include "perl_host.h"

/* ---- Calls -------------------------------------------------------------------------------------------------------------- */

static inline bool has_died(pTHX) {
    SV *error = ERRSV;
    return SvROK(error) || (SvPOK(error) && SvCUR(error) > 0);
}

/* Ends a child process that the app has forked, and in which the app's code has returned or died. Ends it as perl ends a
 * program: with the message of an uncaught exception, and with the exit status of `die`. */
static void end_child(pTHX) __attribute__((noreturn));

static void end_child(pTHX) {
    int status = errno & 255;
    SV *error;
    oribi_bytes text = {"", 0};
    if (!has_died(aTHX))
        forks_end_stray(aTHX_ 0);
    if (status == 0)
        status = (STATUS_UNIX >> 8) & 255;
    if (status == 0)
        status = 255;
    error = sv_mortalcopy_flags(ERRSV, SV_NOSTEAL);
    switch (text_bytes(aTHX_ error, &text)) {
    case TEXT_WIDE:
        text.data = SvPVutf8(error, text.size);
        break;
    case TEXT_DIED:
        text.data = text_describe(aTHX_ error);
        text.size = strlen(text.data);
        break;
    default:
        break;
    }
    PerlIO_write(Perl_error_log, text.data, text.size);
    PerlIO_flush(Perl_error_log);
    forks_end_stray(aTHX_ status);
}

/* Calls `code`, or, if it is NULL, the method `method` of `argument`. The call runs on a Perl stack of its own: `last`, `next`
 * and `goto` search for their loop only on that stack, so they cannot jump to a loop of the program that started the server. */
static SV *call_fenced(pTHX_ SV *code, const char *method, SV *argument) {
    dSP;
    SV *result;
    const unsigned forks = forks_count();
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    if (argument)
        XPUSHs(argument);
    PUTBACK;
    if (method)
        call_method(method, G_SCALAR | G_EVAL);
    else
        call_sv(code, G_SCALAR | G_EVAL);
    SPAGAIN;
    result = POPs;
    PUTBACK;
    POPSTACK;
    if (UNLIKELY(forks != forks_count()))
        end_child(aTHX);
    return UNLIKELY(has_died(aTHX)) ? NULL : result;
}

SV *protected_call(pTHX_ SV *code, SV *argument) {
    return call_fenced(aTHX_ code, NULL, argument);
}

SV *protected_call_method(pTHX_ SV *object, const char *method) {
    return call_fenced(aTHX_ NULL, method, object);
}

/* ---- The bytes of values ------------------------------------------------------------------------------------------------ */

/* Stringifies its argument; only called through protected_call, because overloading runs code. */
static XS(text_stringify) {
    dXSARGS;
    SV *text;
    if (items != 1)
        croak("one value expected");
    text = sv_newmortal();
    sv_copypv(text, ST(0));
    ST(0) = text;
    XSRETURN(1);
}

/* Stringifies values that may run Perl code: magic, references. */
static SV *stringify_protected(pTHX_ SV *value) {
    CV *stringify = newXS(NULL, text_stringify, __FILE__);
    SV *text;
    sv_2mortal((SV *)stringify);
    text = protected_call(aTHX_ (SV *)stringify, value);
    return text;
}

TextResult text_bytes(pTHX_ SV *value, oribi_bytes *bytes) {
    STRLEN size;
    if (LIKELY((SvFLAGS(value) & (SVf_POK | SVf_UTF8 | SVs_GMG | SVf_ROK)) == SVf_POK)) {
        bytes->data = SvPVX_const(value);
        bytes->size = SvCUR(value);
        return TEXT_OK;
    }
    if (SvGMAGICAL(value) || SvROK(value) || isGV(value)) {
        value = stringify_protected(aTHX_ value);
        if (!value)
            return TEXT_DIED;
    } else if (!SvOK(value)) {
        bytes->data = "";
        bytes->size = 0;
        return TEXT_UNDEFINED;
    }
    bytes->data = SvPV_nomg_const(value, size);
    bytes->size = size;
    if (SvUTF8(value)) {
        /* Downgrades a copy, because the app may use the same scalar elsewhere as characters. */
        SV *copy = newSVpvn_flags(bytes->data, bytes->size, SVf_UTF8 | SVs_TEMP);
        if (!sv_utf8_downgrade(copy, TRUE))
            return TEXT_WIDE;
        bytes->data = SvPVX_const(copy);
        bytes->size = SvCUR(copy);
    }
    return TEXT_OK;
}
