/* text.c - the bytes of Perl values.
 *
 * An app may return anything: objects that overload "", strings in Perl's wide representation, undef. The common case, a plain
 * byte string, costs two comparisons.
 */
#include "perl_host.h"

/* Stringifies its argument; only called through call_protected, because overloading runs code. */
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
    text = call_protected(aTHX_ (SV *)stringify, value);
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

bool text_digits(SV *value, char *end, oribi_bytes *bytes) {
    char *start = end;
    UV rest;
    if ((SvFLAGS(value) & (SVf_IOK | SVf_NOK | SVf_POK | SVf_ROK | SVf_IVisUV | SVs_GMG)) != SVf_IOK || SvIVX(value) < 0)
        return FALSE;
    rest = (UV)SvIVX(value);
    do {
        *--start = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    bytes->data = start;
    bytes->size = (size_t)(end - start);
    return TRUE;
}

const char *text_describe(pTHX_ SV *value) {
    if (!value || (!SvOK(value) && !SvGMAGICAL(value)))
        return "undef";
    if (SvROK(value)) {
        const char *kind = sv_reftype(SvRV(value), FALSE);
        if (sv_isobject(value))
            return SvPVX_const(sv_2mortal(newSVpvf("an object of class %s", sv_reftype(SvRV(value), TRUE))));
        if (strEQ(kind, "ARRAY") && SvRMAGICAL(SvRV(value)))
            return "a reference to a tied array";
        if (strEQ(kind, "ARRAY"))
            return SvPVX_const(sv_2mortal(newSVpvf("an array reference of %" IVdf " elements",
                                                   (IV)(AvFILLp((AV *)SvRV(value)) + 1))));
        if (strEQ(kind, "HASH"))
            return "a hash reference";
        if (strEQ(kind, "CODE"))
            return "a code reference";
        if (strEQ(kind, "GLOB"))
            return "a glob reference that is no open handle";
        return "a reference to a scalar";
    }
    if (SvPOK(value) && !SvGMAGICAL(value))
        return SvPVX_const(sv_2mortal(newSVpvf("the string '%.60s'", SvPVX_const(value))));
    if (SvIOK(value))
        return SvPVX_const(sv_2mortal(newSVpvf("the number %" IVdf, SvIVX(value))));
    return "a plain scalar";
}
