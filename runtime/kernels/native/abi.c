/* Which sources a library was built from: runtime/kernels/native/abi.py. */

#include "kernel.h"

#ifndef SQLENGINE_ABI
#error "SQLENGINE_ABI is defined by setup.py"
#endif

KERNEL sqlengine_abi(void)
{
    return SQLENGINE_ABI;
}
