// e^x that gives the same bits on every machine.
//
// The C library's exp picks a variant by CPU (with or without fused multiply-add) and those differ
// in the last bit; one such bit can move a drawn token. This one is made of IEEE additions and
// multiplications in a fixed order.
#pragma once

namespace thaw {

// For x <= 0 (-inf included), with a relative error below 1e-15; 0 below -700, where e^x < 1e-304.
double ReproducibleExp(double x);

}  // namespace thaw
