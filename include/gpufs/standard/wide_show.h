/* After it: the names are free again. */
#pragma GCC system_header

#if defined(__GLIBC__)
#pragma pop_macro("__attr_dealloc")
#endif
#undef fgetwc
#undef getwc
#undef getwchar
#undef fputwc
#undef putwc
#undef putwchar
#undef fgetws
#undef open_wmemstream
#undef fputws
#undef ungetwc
#undef fwide
#undef fwprintf
#undef wprintf
#undef vfwprintf
#undef vwprintf
#undef fwscanf
#undef wscanf
#undef vfwscanf
#undef vwscanf
#undef getwc_unlocked
#undef getwchar_unlocked
#undef fgetwc_unlocked
#undef fputwc_unlocked
#undef putwc_unlocked
#undef putwchar_unlocked
#undef fgetws_unlocked
#undef fputws_unlocked
#undef swprintf
#undef vswprintf
#undef swscanf
#undef vswscanf
