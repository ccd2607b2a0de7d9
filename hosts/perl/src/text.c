/* text.c - values as text, without running code of the app: the digits of numbers, and descriptions for messages. */
#include "perl_host.h"

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
