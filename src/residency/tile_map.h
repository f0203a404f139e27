// How weight matrices are cut into tiles.
//
// A tile is a run of whole rows of one matrix: the unit of reading, thawing, pinning and eviction.
// Tiles stand in the order in which a forward pass visits them, which is what makes prefetching
// exact. The map is made once at load and holds no weights; nothing of it changes but in which form
// tiles lie in memory (SetThawed, TakeForms). Thread safe while it is const.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "codec/frozen_tensor.h"
#include "io/file.h"
#include "tensor/element_type.h"
#include "tensor/thawed_grids.h"

namespace thaw {

// What a matrix is part of: weights of a layer can be preloaded and pinned by group.
enum class WeightGroup : uint8_t { kAttention, kFeedForward, kExperts, kOutput };

// "attn", "ffn", "experts", "output"
std::string_view WeightGroupName(WeightGroup group);

// How passes read a matrix.
enum class MatrixUse : uint8_t {
  kMultiplied,
  kLookedUp,  // row by row, as a table (residency/row_cache.h): it gets no tiles
  kBoth,      // an embedding that is the output matrix too
};

// How the tiles of a matrix are held in memory that has two forms (WeightMatrix::has_forms).
enum class TileForm : uint8_t {
  kCoded,   // as in the file: frozen ones coded, points of grids as they are
  kThawed,  // when they are read, to rows of WeightMatrix::thawed_type
  kEither,  // each as TileMap::SetThawed says, which may change while the map is in use
};

// A tensor with the rows of one expert.
struct ExpertTensor {
  std::string name;
  std::shared_ptr<const File> file;
  uint64_t offset = 0;  // bytes from the start of the file
};

// A weight matrix where it lies in its file: `rows` rows of `cols` elements, one after another.
struct WeightMatrix {
  std::string name;  // the tensor's name
  ElementType type = ElementType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  std::shared_ptr<const File> file;
  uint64_t offset = 0;    // bytes from the start of the file
  int64_t first_row = 0;  // its first row's number in the tensor

  int32_t layer = 0;  // the output matrix stands in a layer of its own, after the last
  WeightGroup group = WeightGroup::kAttention;

  // Where its tiles lie, of a frozen matrix, whose rows are cut as the file has them: those of
  // these rows alone where the tensor has others too. `type` is that of its rows once they are
  // thawed. nullptr for others.
  std::shared_ptr<const FrozenTensor> frozen = nullptr;
  // Sizes that are fixed before a form changes are those of the one that takes more.
  TileForm form = TileForm::kCoded;

  MatrixUse use = MatrixUse::kMultiplied;

  // Its tiles lie packed in memory where they are not coded (tensor/packed_rows.h, where
  // CanPackRows must hold for it).
  bool is_packed = false;

  // Of how many experts it holds the rows, as many of each, one expert after another: a pass visits
  // those alone that it chooses. 0: every pass visits all of it.
  int64_t n_experts = 0;
  int64_t n_used = 0;  // experts that a token goes through

  // [n_experts] where each expert has a tensor of its own; `name` is what one of all would have,
  // and file and offset are those of the first.
  std::vector<ExpertTensor> expert_tensors = {};

  bool is_multiplied() const { return use != MatrixUse::kLookedUp; }
  bool is_looked_up() const { return use != MatrixUse::kMultiplied; }
  int64_t row_bytes() const { return RowBytes(type, cols); }
  bool is_frozen() const { return frozen != nullptr; }
  // Of its rows once thawed: frozen ones, and points of grids that nothing looks rows up in
  // (tensor/thawed_grids.h). All others are as they are.
  ElementType thawed_type() const {
    return is_frozen() || is_looked_up() ? type : ThawedGridType(type);
  }
  bool has_forms() const { return is_frozen() || thawed_type() != type; }
  // Its tiles are decoded in each product, or thawed in memory, at some time.
  bool may_be_coded() const { return is_frozen() && form != TileForm::kThawed; }
  bool may_be_thawed() const { return has_forms() && form != TileForm::kCoded; }
  bool changes_form() const { return has_forms() && form == TileForm::kEither; }
  bool is_chosen() const { return n_experts > 0; }
  int64_t rows_of_expert() const { return is_chosen() ? rows / n_experts : rows; }
  // Tiles begin anew at each multiple of it: at each expert, and at each matrix of a frozen tensor.
  int64_t rows_cut_as_one() const { return is_frozen() ? frozen->rows : rows_of_expert(); }
  // The expert's own tensor, or nullptr.
  const ExpertTensor* TensorOfExpert(int64_t expert) const {
    return expert_tensors.empty() ? nullptr : &expert_tensors[static_cast<size_t>(expert)];
  }
};

struct Tile {
  int32_t matrix = 0;  // index into TileMap::matrices()
  int64_t row_begin = 0;
  int64_t row_count = 0;
  const File* file = nullptr;  // one of its matrix's
  uint64_t offset = 0;         // bytes from the start of the file
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3 of its bytes in the file, of a frozen one

  // Its rows in memory.
  ElementType type = ElementType::kF32;  // of coded ones, that which they thaw to
  uint64_t memory_bytes = 0;             // more than in the file where they are thawed
  bool is_thawed = false;                // of a matrix that has two forms
  bool is_coded = false;                 // frozen ones that are not
  bool is_packed = false;

  // The room that a read of it and its rows need in memory, a multiple of TileMap::alignment():
  // direct reads begin and end at multiples of it in the file, so `lead` bytes come before the
  // tile's own.
  uint64_t span_bytes = 0;
  uint64_t lead_bytes = 0;

  bool IsHeldAs(const Tile& other) const {
    return is_thawed == other.is_thawed && is_packed == other.is_packed;
  }
};

class TileMap {
 public:
  // `matrices` in the order of a forward pass. kCorrupt when one reaches beyond its file.
  static Result<TileMap> Create(std::vector<WeightMatrix> matrices);

  std::span<const WeightMatrix> matrices() const { return matrices_; }
  const WeightMatrix& matrix(int32_t index) const { return matrices_[static_cast<size_t>(index)]; }

  // All tiles, matrix by matrix, rows ascending.
  std::span<const Tile> tiles() const { return tiles_; }
  const Tile& tile(int32_t index) const { return tiles_[static_cast<size_t>(index)]; }
  int32_t tile_count() const { return static_cast<int32_t>(tiles_.size()); }

  const WeightMatrix& matrix_of(int32_t tile_index) const {
    return matrix(tile(tile_index).matrix);
  }
  // Where a tile lies, for messages: "tensor 'x', rows 0 to 447", and the first of these rows.
  std::string Describe(int32_t tile_index) const;
  int64_t first_row_in_tensor(int32_t tile_index) const;

  // The tiles of one matrix: [first, first + count) of tiles(). All but the last of
  // WeightMatrix::rows_cut_as_one have `rows_per_tile` rows; no tile holds rows of two experts.
  struct Range {
    int32_t first = 0;
    int32_t count = 0;
    int64_t rows_per_tile = 0;
  };
  const Range& tiles_of(int32_t matrix) const { return ranges_[static_cast<size_t>(matrix)]; }
  // Those of one of its experts.
  Range tiles_of(int32_t matrix, int64_t expert) const;
  // The tile that holds a row of a matrix that has tiles.
  int32_t TileOfRow(int32_t matrix, int64_t row) const;

  // The first tile of the layer that a tile is in.
  int32_t first_tile_of_layer(int32_t tile_index) const {
    return layer_starts_[static_cast<size_t>(tile_index)];
  }

  // Of matrices of experts; passes visit those that they choose.
  bool is_chosen(int32_t tile_index) const { return matrix_of(tile_index).is_chosen(); }
  bool has_experts() const { return has_experts_; }
  // What a token visits: all of the tile, or of a tile of experts as much as under uniform use.
  double visited_bytes(int32_t tile_index) const {
    const WeightMatrix& of = matrix_of(tile_index);
    const auto bytes = static_cast<double>(tile(tile_index).bytes);
    return of.is_chosen()
               ? bytes * static_cast<double>(of.n_used) / static_cast<double>(of.n_experts)
               : bytes;
  }

  // Sums over the tiles as they lie in files.
  uint64_t weight_bytes() const { return weight_bytes_; }
  double visited_bytes() const { return visited_bytes_; }

  // In memory, and the largest room that one needs.
  uint64_t memory_bytes() const { return memory_bytes_; }
  double visited_memory_bytes() const { return visited_memory_bytes_; }
  uint64_t span_bytes() const { return span_bytes_; }
  uint64_t largest_span_bytes() const { return largest_span_bytes_; }

  // The same with every tile in that of its forms that takes the most.
  uint64_t most_span_bytes() const { return most_span_bytes_; }
  uint64_t most_tile_span_bytes() const { return most_tile_span_bytes_; }

  bool changes_form(int32_t tile_index) const { return matrix_of(tile_index).changes_form(); }
  bool changes_forms() const { return std::ranges::any_of(matrices_, &WeightMatrix::changes_form); }
  // Holds each tile that changes its form thawed where `is_thawed` says so, else as in the file.
  // Costs a look at each tile; what changes is how rows of tiles lie in memory, and sums of that.
  void SetThawed(FunctionRef<bool(int32_t tile)> is_thawed);
  // The same with the forms of another map of the same tiles.
  void TakeForms(const TileMap& other);

  // Scratch that packing any of the tiles, thawing it, or looking through a frozen one, takes in
  // any of its forms; 0 where there is none of these.
  uint64_t thaw_scratch_bytes() const { return thaw_scratch_bytes_; }

  // Of every slot: the strictest that any of the files asks for.
  uint64_t alignment() const { return alignment_; }

 private:
  void Hold(Tile& tile, bool is_thawed);
  void SumForms();

  std::vector<WeightMatrix> matrices_;
  std::vector<Tile> tiles_;
  std::vector<Range> ranges_;
  std::vector<int32_t> layer_starts_;  // [tiles]
  uint64_t weight_bytes_ = 0;
  double visited_bytes_ = 0;
  uint64_t memory_bytes_ = 0;
  double visited_memory_bytes_ = 0;
  uint64_t span_bytes_ = 0;
  uint64_t largest_span_bytes_ = 0;
  uint64_t most_span_bytes_ = 0;
  uint64_t most_tile_span_bytes_ = 0;
  uint64_t thaw_scratch_bytes_ = 0;
  uint64_t alignment_ = 64;
  bool has_experts_ = false;
};

}  // namespace thaw
